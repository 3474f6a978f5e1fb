"""CUDA C++ with device functions in Python on a GPU: scalars, results, and arrays in shared and in global memory.

The bundle is built elsewhere: `python -m tests.gpu.test_python_link build/python-link`, and there `tilec build`. The variable
TILEC_PYTHON_LINK_DIST names another place of its `dist`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilec_runtime import errors, load
from tilec_runtime.bundle.read import Bundle

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")]

DIST = Path(__file__).resolve().parents[2] / "build" / "python-link" / "dist"
MANIFEST = """edition = 1

[package]
name = "python-link"
version = "0.1.0"

[targets]
default = ["sm_90", "compute_80"]

[kernel.center]
source = "center.cu"
link = ["smooth.py:soft", "smooth.py:mean", "smooth.py:store"]
args = ["y.ptr", "x.ptr", "i32(x.size)"]
params = { y = {}, x = {} }
launch = { requires = ["y.size == x.size"], grid = ["cdiv(x.size, 256)"], block = [256] }
"""
PYTHON = """from numba import cuda, float32, int32
from tilec import simt

@cuda.jit(device=True)
def soft(x: float32) -> float32:
    return x / (float32(1) + abs(x))

@cuda.jit(device=True)
def mean(x: simt.Ref[float32], scale: float32) -> float32:
    total = float32(0)
    for i in range(x.size):
        total += x[i] * scale
    return total / float32(x.size)

@cuda.jit(device=True)
def store(y: simt.Mut[float32], i: int32, value: float32) -> None:
    y[i] = value
"""
SOURCE = """extern "C" __device__ float soft(float x);
extern "C" __device__ float mean(const float* x, long long size, float scale);
extern "C" __device__ void store(float* y, long long size, int i, float value);
extern "C" __global__ void center(float* y, const float* x, int n) {
    __shared__ float block[256];
    const int i = blockIdx.x * 256 + threadIdx.x;
    block[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < n) store(y, n, i, soft(block[threadIdx.x]) - mean(block, 256, 2.0f));
}
"""


def write(root: Path) -> None:
    """The project."""
    root.mkdir(parents=True, exist_ok=True)
    for name, text in (("tilec.toml", MANIFEST), ("smooth.py", PYTHON), ("center.cu", SOURCE)):
        (root / name).write_text(text, encoding="utf-8")


def test_a_kernel_calls_its_functions_in_python(torch: Any) -> None:
    path = Path(os.environ.get("TILEC_PYTHON_LINK_DIST", str(DIST))) / "python-link-0.1.0.tilec"
    if not path.is_file():
        pytest.skip(f"{path} is not there: build it first, as this file says")
    try:
        module = load(Bundle.open(path), 0)
    except errors.DeviceError as error:
        pytest.skip(f"no GPU: {error.what}")
    x = np.random.default_rng(0).standard_normal(1024, np.float32)
    given = torch.from_numpy(x).cuda()
    y = torch.zeros_like(given)
    module.center(y, given)
    wanted = x / (1 + np.abs(x)) - np.repeat(2 * x.reshape(-1, 256).mean(axis=1), 256)
    np.testing.assert_allclose(y.cpu().numpy(), wanted, rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
