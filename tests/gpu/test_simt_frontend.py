"""SIMT Python on a GPU: every case of examples/simt, structs, checks of indices, and the chain of
examples/inter_kernel.

The bundles are built elsewhere, with numba; where the tests run, the driver is enough. In
examples/simt: `tilec build --profile debug`, `mv dist ../../build/simt-debug`, `tilec build`; in
examples/inter_kernel: `tilec build`. The variables below name other places.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.gpu.built import bundle_of, failing, on_gpu
from tilec.manifest.types import Manifest
from tilec_runtime import Module

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
BUNDLE = "tilec-simt-examples-0.1.0.tilec"
KERNELS = ("saxpy", "add_rows", "block_sums", "histogram", "matmul", "diffuse", "count_inside")


def built(variable: str, default: Path, name: str) -> Path:
    path = Path(os.environ.get(variable, str(default))) / name
    if not path.is_file():
        pytest.skip(f"{path} is not there: build it first, or say where it is with {variable}")
    return path


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return bundle_of(EXAMPLES / "simt", "TILEC_SIMT_DIST")[0]


@pytest.fixture(scope="module")
def module() -> Module:
    return on_gpu(bundle_of(EXAMPLES / "simt", "TILEC_SIMT_DIST")[1])


@pytest.fixture(scope="module")
def debug() -> Path:
    return built("TILEC_SIMT_DEBUG_DIST", ROOT / "build" / "simt-debug", BUNDLE)


@pytest.mark.parametrize("name", KERNELS)
def test_every_case_agrees_with_its_reference(
    name: str, manifest: Manifest, module: Module
) -> None:
    assert failing(name, manifest, module) == []


@pytest.mark.parametrize("name", KERNELS)
def test_checked_code_computes_the_same(name: str, manifest: Manifest, debug: Path) -> None:
    assert failing(name, manifest, on_gpu(debug)) == []


def test_a_struct_by_value(module: Module, torch: Any) -> None:
    x = torch.randn(100003, device="cuda")
    y = torch.empty_like(x)
    torch.cuda.synchronize()
    module.clamp(y, x, np.array([-0.5, 0.25], np.float32).tobytes())
    torch.testing.assert_close(y, x.clamp(-0.5, 0.25), rtol=0, atol=0)


OUTSIDE = """
import sys
import numpy as np
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import DeviceError
from tilec_runtime import DeviceBuffer, Stream, load

module, stream = load(Bundle.open(sys.argv[1]), 0), Stream(0)
counts, x = DeviceBuffer((64,), "i32", 0), DeviceBuffer.from_host(np.full(256, 64, np.int32), 0)
try:
    module.histogram(counts, x, stream=stream)
    stream.sync()
except DeviceError as error:
    print("stopped:", error)
"""


def test_an_index_out_of_bounds_stops_a_checked_kernel(debug: Path, module: Module) -> None:
    """In a process of its own, whose context dies."""
    assert module.device is not None
    done = subprocess.run(
        [sys.executable, "-c", OUTSIDE, str(debug)],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "reduce.py:49" in done.stdout + done.stderr
    assert "stopped: " in done.stdout


def test_the_chain_is_one_command(module: Module) -> None:
    bundle = built(
        "TILEC_INTER_KERNEL_DIST", EXAMPLES / "inter_kernel" / "dist", "inter-kernel-0.1.0.tilec"
    ).resolve()
    assert module.device is not None
    path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    done = subprocess.run(
        [sys.executable, "-m", "tilec", "run", "inter_kernel", "--bundle", str(bundle)],
        cwd=EXAMPLES / "inter_kernel",
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "PASS: row_softmax (tile) -> threshold_scale (simt): one stream, the same arrays"
        in done.stdout
    )
