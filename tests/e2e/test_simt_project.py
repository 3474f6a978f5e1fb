"""Projects with SIMT kernels in Python: every case of examples/simt by a model of its launch, and
examples/inter_kernel as one chain.
"""

from __future__ import annotations

import ctypes
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.e2e.harness import Cli, copied
from tilec.testing.fake_driver import H200, FakeDriver, FakeKernel
from tilec_runtime import Device, use_device
from tilec_runtime.bundle.read import Bundle

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain, pytest.mark.long]
pytest.importorskip("numba_cuda")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BUNDLE = "dist/tilec-simt-examples-0.1.0.tilec"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    root = copied(EXAMPLES / "simt", tmp_path_factory.mktemp("simt") / "simt")
    cli.good(root, "build", "--targets", "sm_90,compute_80")
    return root


def test_a_build_needs_no_gpu_and_says_its_tools(project: Path, cli: Cli) -> None:
    report = cli.good(project, "inspect", BUNDLE, "--json").json()
    assert {kernel["language"] for kernel in report["kernels"]} == {"simt"}
    assert {"numba-cuda", "numba", "llvmlite", "libnvvm", "ptxas"} <= {
        tool["name"] for tool in report["toolchain"]
    }
    assert "numba_cuda" not in (project / "dist" / "tilec_simt_examples" / "__init__.py").read_text(
        encoding="utf-8"
    )


def test_a_tile_kernel_and_a_simt_kernel_on_one_stream(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copied(EXAMPLES / "inter_kernel", tmp_path / "inter_kernel")
    cli.good(root, "build", "--targets", "sm_90,tileir")
    for folder in (root, root / "dist"):
        monkeypatch.syspath_prepend(str(folder))
    with imported("main", "reference", "inter_kernel") as modules:
        main, reference, package = modules
        bundle = Bundle.open(root / "dist" / "inter-kernel-0.1.0.tilec")
        driver = FakeDriver((H200,), modelled(bundle, reference))
        with use_device(Device(0, driver=driver)):
            said = main.main()
    assert package.__file__.startswith(str(root))
    assert said.startswith("PASS: tile softmax -> SIMT threshold/scale, 513 x 777, ")
    named = {i.symbol: k.name for k in bundle.info.kernels for v in k.variants for i in v.images}
    launches = [launch for launch in driver.launches if launch.symbol in named]
    assert [named[launch.symbol] for launch in launches] == ["row_softmax", "threshold_scale"]
    softmax, gate = launches
    assert softmax.stream == gate.stream
    assert gate.arguments[3] == softmax.arguments[0], (
        "the second kernel reads what the first one wrote"
    )


class imported:  # noqa: N801 - a context manager
    """Modules of the example by name, which are forgotten afterwards."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __enter__(self) -> list[Any]:
        return [importlib.import_module(name) for name in self.names]

    def __exit__(self, *_error: object) -> None:
        for name in self.names:
            sys.modules.pop(name, None)


def modelled(bundle: Bundle, reference: Any) -> dict[str, FakeKernel]:
    """The two kernels as functions of what a launch packs, in host memory."""

    def array(address: int, *shape: int) -> Any:
        count = int(np.prod(shape))
        return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address)).reshape(shape)

    def row_softmax(*arguments: Any) -> None:
        y, rows, columns, _, _, x = arguments[:6]
        array(y, rows, columns)[...] = reference.row_softmax(array(x, rows, columns))

    def threshold_scale(
        y: int,
        rows: int,
        columns: int,
        x: int,
        _rows: int,
        _columns: int,
        threshold: float,
        scale: float,
    ) -> None:
        array(y, rows, columns)[...] = reference.threshold_scale(
            array(x, rows, columns), threshold, scale
        )

    run = {"row_softmax": row_softmax, "threshold_scale": threshold_scale}
    return {
        i.symbol: FakeKernel(abi=v.abi, run=run[k.name])
        for k in bundle.info.kernels
        for v in k.variants
        for i in v.images
    }


def test_the_kernels_compute_what_their_references_say_where_threads_are_pythons(cli: Cli) -> None:
    script = Path(__file__).resolve().parents[1] / "toolchain" / "simulated.py"
    command = [sys.executable, "-W", "ignore", str(script), str(EXAMPLES / "simt")]
    env = {**cli.env, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, env=env, capture_output=True, encoding="utf-8", check=False, timeout=120
    )
    assert done.stdout.split() == [
        "saxpy",
        "add_rows",
        "histogram",
        "matmul",
        "diffuse",
        "count_inside",
    ], done.stderr
