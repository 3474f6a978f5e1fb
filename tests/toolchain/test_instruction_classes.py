"""Classes of instructions and every warning, on what the toolkit's compiler makes: opcodes differ
between architectures.
"""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path

import pytest

from tests.toolchain.cuda_jobs import compile_text
from tilec.frontends.base import ToolSearch
from tilec.inspection.dump import machine_code
from tilec.inspection.mix import Mix, mix
from tilec.inspection.sass import Instruction, instructions
from tilec_runtime.model.arch import Version

pytestmark = pytest.mark.toolchain

SEARCH = ToolSearch(path=os.environ.get("PATH", ""))
HEAD = 'extern "C" __global__ void k(float* y, const float* x, int n) {'
SHARED = "__shared__ __align__(128) float t[4096]; unsigned at = (unsigned)__cvta_generic_to_shared(t); int i = threadIdx.x;"
TAIL = "__syncthreads(); y[i] = t[i]; }"
MMA = (
    f"{HEAD} int i = threadIdx.x; float d[4] = {{0, 0, 0, 0}}; unsigned a = n, b = n + 1;"
    'asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%4,%5},{%4,%5},{%0,%1,%2,%3};"'
    ' : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a), "r"(b)); y[i] = d[0] + d[1] + d[2] + d[3]; }'
)
WGMMA = (
    f"{HEAD} int i = threadIdx.x; float d[4] = {{0, 0, 0, 0}}; unsigned long long a = n, b = n + 1;"
    ' asm volatile("wgmma.fence.sync.aligned;");'
    ' asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"'
    ' : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b)); asm volatile("wgmma.commit_group.sync.aligned;");'
    ' asm volatile("wgmma.wait_group.sync.aligned 0;"); y[i] = d[0] + d[1] + d[2] + d[3]; }'
)
CP_ASYNC = (
    f'{HEAD} {SHARED} asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" :: "r"(at + 16 * i), "l"(x + 4 * i));'
    f' asm volatile("cp.async.wait_all;"); {TAIL}'
)
BULK = (
    f"{HEAD} {SHARED} __shared__ unsigned long long m; unsigned bar = (unsigned)__cvta_generic_to_shared(&m);"
    ' asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(bar));'
    ' asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];"'
    f' :: "r"(at), "l"(x), "r"(bar) : "memory"); {TAIL}'
)
TCGEN05 = (
    f'{HEAD} asm volatile("tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, 1;"'
    ' :: "r"(n), "l"((unsigned long long)n), "l"((unsigned long long)n), "r"(n)); y[0] = n; }'
)
SPILLS = (
    'extern "C" __global__ void __launch_bounds__(1024, 2) k(float* y, const float* x, int n) { float v[64];'
    " for (int j = 0; j < 64; j++) v[j] = x[threadIdx.x + j * n]; for (int r = 0; r < n; r++) for (int j = 0; j < 64; j++)"
    " v[j] = v[j] * v[(j + 7) % 64] + v[(j + 13) % 64]; for (int j = 0; j < 64; j++) y[threadIdx.x + j * n] = v[j]; }"
)


@functools.cache
def code(text: str, target: str) -> tuple[tuple[Instruction, ...], Version]:
    with tempfile.TemporaryDirectory() as folder:
        image = compile_text(Path(folder), text, target=target)
    return tuple(
        instructions(machine_code(image.data, image.info.symbol, SEARCH)[1])
    ), image.info.target.cc


def made(text: str, target: str = "sm_90a") -> Mix:
    found, cc = code(text, target)
    return mix(found, cc, double=False)


@pytest.mark.parametrize(
    ("text", "target", "name"),
    [
        (MMA, "sm_80", "tensor core, warp (mma.sync)"),
        (MMA, "sm_90a", "tensor core, warp (mma.sync)"),
        (WGMMA, "sm_90a", "tensor core, warp group (wgmma)"),
        (TCGEN05, "sm_100a", "tensor core, tensor memory (tcgen05)"),
        (CP_ASYNC, "sm_120", "asynchronous copies (cp.async)"),
        (BULK, "sm_90a", "bulk copies (TMA)"),
        (BULK, "sm_90a", "barriers and fences"),
        (CP_ASYNC, "sm_120", "shared memory"),
        (SPILLS, "sm_90a", "local memory"),
        (SPILLS, "sm_90a", "global memory"),
    ],
)
def test_what_is_written_is_found_in_its_class(text: str, target: str, name: str) -> None:
    assert dict(made(text, target).classes).get(name, 0) > 0


def test_products_of_single_warps_are_told_where_warp_groups_are_faster() -> None:
    (warning,) = made(MMA, "sm_90a").warnings
    assert "matrix products of single warps (mma.sync), none of warp groups (wgmma)" in warning
    (warning,) = made(MMA, "sm_100a").warnings
    assert "none of tcgen05" in warning
    assert made(MMA, "sm_80").warnings == ()
    assert made(WGMMA, "sm_90a").warnings == ()


def test_spills_are_told() -> None:
    assert any("accesses of local memory" in warning for warning in made(SPILLS).warnings)
