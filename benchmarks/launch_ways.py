"""What several benchmarks launch: one small kernel as source and as PTX, and tensors of tilec's
own.
"""

from __future__ import annotations

from typing import Any

KERNEL = """
extern "C" __global__ void scale(float* y, const float* x, const float* z, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + z[i];
}
"""


def compiled() -> bytes:
    """The plain kernel as PTX that any driver since CUDA 11 reads; a byte of zero ends it."""
    ptx = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 y, .param .u64 x, .param .u64 z, .param .u32 n)
{
    .reg .pred %p; .reg .b32 %r<5>; .reg .f32 %f<3>; .reg .b64 %d<8>;
    ld.param.u64 %d1, [y]; ld.param.u64 %d2, [x]; ld.param.u64 %d3, [z]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
    mad.lo.s32 %r2, %r2, %r3, %r4;
    setp.ge.s32 %p, %r2, %r1;
    @%p bra DONE;
    mul.wide.s32 %d4, %r2, 4;
    add.s64 %d5, %d2, %d4; ld.global.f32 %f1, [%d5];
    add.s64 %d6, %d3, %d4; ld.global.f32 %f2, [%d6];
    add.f32 %f1, %f1, %f2;
    add.s64 %d7, %d1, %d4; st.global.f32 [%d7], %f1;
DONE:
    ret;
}
"""
    return ptx.encode() + b"\0"


def own_tensors(n: int, count: int = 3, stream: int = 0) -> list[Any]:
    """Tensors of tilec's own."""
    from tilec_runtime import Tensor, current_device

    driver = current_device().driver
    return [
        Tensor.uninitialized((n,), "f32", driver=driver, ordinal=0, stream=stream)
        for _ in range(count)
    ]
