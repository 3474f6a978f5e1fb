"""The cubin reader against cuobjdump, on cubins of NVRTC and of the tile compiler."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.toolchain import tile_jobs
from tests.toolchain.cuda_jobs import compile_text
from tests.toolchain.projects import run_tool
from tilec_runtime.bundle.cubin import Cubin, read_cubin

pytestmark = pytest.mark.toolchain

MANY = """
struct P { int a; double b; char c; };
struct Big { int v[5000]; };
extern __shared__ float dynamic[];
__global__ void __launch_bounds__(256, 2) k(float* y, const float* x, char n, P p, const __grid_constant__ P q) {
  __shared__ float s[64];
  s[threadIdx.x & 63] = x[threadIdx.x]; __syncthreads();
  y[threadIdx.x] = s[(threadIdx.x + n) & 63] + p.a + q.b;
}
__global__ void none() {}
__global__ void big(const __grid_constant__ Big b, char c, float* y) { y[0] = b.v[y[1] > 0 ? 3 : 2] + c; }
__global__ void dyn(float* y) { dynamic[threadIdx.x] = 1; __syncthreads(); y[0] = dynamic[3]; }
__global__ void stack(float* y, int n) {
  float v[64];
  for (int i = 0; i < 64; ++i) v[i] = y[i * n];
  for (int i = 0; i < 64; ++i) y[i] = v[(int)v[i] & 63];
}
"""
# From compute capability 9.0 on cuobjdump counts the KiB that the system keeps where a kernel has
# shared memory at all.
RESERVED = 1024


def agrees_with_cuobjdump(cubin: Cubin, path: Path) -> None:
    usage = {
        m[1]: {key: int(value) for key, value in re.findall(r"(\w+(?:\[0\])?):(\d+)", m[2])}
        for m in re.finditer(r"Function (\S+):\n\s+(.*)", run_tool("cuobjdump", "-res-usage", path))
    }
    assert set(usage) == {kernel.name for kernel in cubin.kernels}
    for kernel in cubin.kernels:
        row = usage[kernel.name]
        assert kernel.registers == row["REG"]
        assert kernel.stack == row["STACK"]
        assert kernel.constant == row["CONSTANT[0]"]
        assert row["SHARED"] - kernel.shared in (0, RESERVED if cubin.cc >= (9, 0) else 0)
    listed = run_tool("cuobjdump", "-elf", path)
    for name, section in re.findall(r"^\.nv\.info\.(\S+)\n((?:\t.*\n|\n)+)", listed, re.MULTILINE):
        if all(kernel.name != name for kernel in cubin.kernels):
            continue
        rows = re.findall(r"Ordinal : 0x(\w+)\s+Offset  : 0x(\w+)\s+Size    : 0x(\w+)", section)
        expected = sorted(tuple(int(n, 16) for n in row) for row in rows)
        assert [(p.ordinal, p.offset, p.size) for p in cubin.kernel(name).params] == expected


@pytest.mark.parametrize(
    "target",
    ["sm_75", "sm_80", "sm_90a", "sm_100f", "sm_120"],
)
def test_against_cuobjdump(tmp_path: Path, target: str) -> None:
    kernels = {}
    for name in ("k", "none", "big", "dyn", "stack"):
        image = compile_text(tmp_path, MANY, name, target)
        cubin = read_cubin(image.data)
        (kernels[name],) = cubin.kernels
        assert kernels[name].name == image.info.symbol
        path = tmp_path / f"{name}.cubin"
        path.write_bytes(image.data)
        agrees_with_cuobjdump(cubin, path)
    assert (kernels["k"].max_threads, kernels["k"].shared) == (256, 256)
    assert [p.size for p in kernels["k"].params] == [8, 8, 1, 24, 24]
    assert [p.size for p in kernels["big"].params] == [20000, 1, 8]
    assert kernels["stack"].stack >= 256


@pytest.mark.parametrize("target", ["sm_90", "sm_120"])
def test_tile_cubins(tmp_path: Path, target: str) -> None:
    tile = tile_jobs.frontend()
    params = tile_jobs.vectors("a", "b", "c")
    made = tile_jobs.job(
        tile,
        tile_jobs.SAMPLE,
        "kernels/vector.py",
        "add",
        params,
        target=target,
        axes={"TILE": 256},
    )
    image = tile.compile(made)
    path = tmp_path / "k.cubin"
    path.write_bytes(image.data)
    cubin = read_cubin(image.data)
    agrees_with_cuobjdump(cubin, path)
    (kernel,) = cubin.kernels
    assert kernel.required_block[1:] == (1, 1)
    assert len(kernel.params) == 9
