"""Kernels whose elements share bytes, from their sources to the cpu device: fp4 of tile kernels and
of CUDA C++.
"""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.e2e.harness import Cli, write
from tilec_runtime import Device, DeviceBuffer, api, load, use_device
from tilec_runtime.errors import ArgumentError

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

MANIFEST = """edition = 1
[package]
name = "fours"
version = "1.0.0"
[targets]
default = ["sm_100", "tileir"]
[kernel.widen]
source = "k/widen.py:widen"
matrix = { TILE = [64] }
launch = { grid = ["cdiv(y.shape[1], TILE)", "y.shape[0]"], requires = ["nbytes(y) == 8 * nbytes(x)"] }
[kernel.widen.params]
y = { dtype = "f32", rank = 2, out = true }
x = { dtype = "f4e2m1", rank = 2 }
[kernel.widen.assume]
sets = [{ divisible = { x = [1, 32] }, aligned = 16 }, {}]
[kernel.pairs]
source = "k/pairs.cu"
launch = { grid = ["cdiv(x.size, 512)"], block = [256] }
"""
FILES = {
    "k/widen.py": """import cuda.tile as ct


@ct.kernel
def widen(y, x, TILE: ct.Constant[int]):
    column, row = ct.bid(0), ct.bid(1)
    ct.store(y, index=(row, column), tile=ct.load(x, index=(row, column), shape=(1, TILE)).astype(ct.float32))
""",
    "k/pairs.cu": """#include <cuda_fp4.h>

extern "C" __global__ void pairs(float* y, const __nv_fp4x2_e2m1* x, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (2 * i < n) {
        const float2 both = float2(x[i]);
        y[2 * i] = both.x;
        y[2 * i + 1] = both.y;
    }
}
""",
}


def test_a_kernel_reads_pairs_of_elements(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path, MANIFEST, FILES)
    cli.good(tmp_path, "build")
    shown = cli.good(tmp_path, "inspect", "dist/fours-1.0.0.tilec").out
    assert "widen(out y: f32[2], x: f4e2m1[2])" in shown
    assert "x: f4e2m1[*]" in shown
    source = (np.arange(6 * 200).reshape(6, 200) % 13 - 6).astype(ml_dtypes.float4_e2m1fn)
    module = load(tmp_path / "dist" / "fours-1.0.0.tilec", "cpu")
    with use_device("cpu") as device:
        x = api.from_host(source).sync()
        y, x = module.lazy.widen(api.from_host(np.zeros((6, 200), np.float32)), x).sync()
        assert np.array_equal(y.to_host(), source.astype(np.float32))
        with x[1:3] as rows:  # contiguous, and aligned to no more than its bytes
            part = np.zeros((2, 200), np.float32)
            module.widen(part, rows)
            Device(device).sync()
        assert np.array_equal(part, source[1:3].astype(np.float32))
        out = np.zeros((6, 200), np.float32)
        module.widen(out, DeviceBuffer.from_host(source, "cpu"))
        Device(device).sync()
        assert np.array_equal(out, source.astype(np.float32))
        with pytest.raises(ArgumentError, match="whose elements may lie one in a byte there"):
            module.widen(out, source)
