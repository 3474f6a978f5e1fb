"""cutile-rs inter-kernel interop: a tile softmax, then a SIMT threshold, on one stream over the
same arrays, built by one command.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.runtime_samples import fake_driver
from tests.seeds.conftest import Built
from tilec_runtime import Device, api, use_device
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import NoDeviceError, NoImageError

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "inter_kernel"


@pytest.fixture(scope="module")
def inter_kernel(built: Built) -> ModuleType:
    files = {
        path.name.replace(".", "__"): path.read_text()
        for path in EXAMPLE.iterdir()
        if path.suffix in (".py", ".toml")
    }
    return built("inter_kernel", **files)


@pytest.fixture
def program(inter_kernel: ModuleType) -> Iterator[ModuleType]:
    """The example's program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        try:
            yield importlib.import_module("main")
        finally:
            for name in ("main", "reference"):
                sys.modules.pop(name, None)


def test_the_tile_half_runs_on_the_cpu_device(
    inter_kernel: ModuleType, program: ModuleType
) -> None:
    logits = np.random.default_rng(0).normal(size=(33, 77)).astype(np.float32)
    with use_device(Device("cpu")):
        softmax, _ = inter_kernel.ops.row_softmax(
            api.zeros(logits.shape), api.from_host(logits)
        ).sync()
        np.testing.assert_allclose(
            softmax.to_host(), program.reference.row_softmax(logits), rtol=1e-4, atol=1e-6
        )
        with pytest.raises(NoImageError, match="threshold_scale"):  # of threads: a GPU runs it
            program.gated(logits).sync()


def test_both_are_launched_on_one_stream_over_the_same_array(
    inter_kernel: ModuleType, program: ModuleType
) -> None:
    (bundle,) = Path(inter_kernel.__file__ or "").parent.parent.glob("*.tilec")
    kernels = Bundle.open(bundle).info.kernels
    driver = fake_driver(*kernels)
    with use_device(Device(0, driver=driver)):
        program.gated(np.zeros((33, 77), np.float32)).sync()
    named = {
        image.symbol: kernel.name
        for kernel in kernels
        for variant in kernel.variants
        for image in variant.images
    }
    launches = [launch for launch in driver.launches if launch.symbol in named]
    softmax, threshold = launches
    assert [named[launch.symbol] for launch in launches] == ["row_softmax", "threshold_scale"]
    assert softmax.stream == threshold.stream
    assert threshold.arguments[3] == softmax.arguments[0]


@pytest.mark.gpu
def test_both_run_as_one_op(program: ModuleType) -> None:
    try:
        Device(0)
    except NoDeviceError as error:
        pytest.skip(str(error))
    assert program.main().startswith("PASS: tile softmax -> SIMT threshold/scale")
