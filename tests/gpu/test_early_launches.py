"""Launches that may begin before the one in front of them is done: chains of them give what the
same chain in order gives.

The kernel is PTX that the driver compiles, so the test needs no compiler.
"""

from __future__ import annotations

import dataclasses

import pytest

from tests.runtime_samples import IMAGES, TENSOR, bundle_of, kernel, slot
from tilec_runtime import load
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.model.arch import Target
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Param

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]

# y[i] = x[n - 1 - i] + 1: each element is made of one that another block of the launch in front has
# written, so that too early a read gives another number.
PTX = """.version 7.8
.target sm_90
.address_size 64
.visible .entry spread(.param .u64 y, .param .u64 x, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<8>;
    griddepcontrol.launch_dependents;
    ld.param.u64 %rd1, [y];
    ld.param.u64 %rd2, [x];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    griddepcontrol.wait;
    setp.ge.s32 %p1, %r5, %r1;
    @%p1 bra DONE;
    sub.s32 %r6, %r1, %r5;
    sub.s32 %r7, %r6, 1;
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mul.wide.s32 %rd5, %r7, 4;
    mul.wide.s32 %rd6, %r5, 4;
    add.s64 %rd4, %rd4, %rd5;
    add.s64 %rd3, %rd3, %rd6;
    ld.global.f32 %f1, [%rd4];
    add.f32 %f2, %f1, 0f3F800000;
    st.global.f32 [%rd3], %f2;
DONE:
    ret;
}
"""
STEPS = 200


def bundle(early: bool) -> Bundle:
    data = PTX.encode()
    row = ImageInfo(
        target=Target.parse("compute_90"),
        digest=sha256(data),
        size=len(data),
        symbol="spread",
        ptx_isa=(7, 8),
    )
    IMAGES[row.digest] = data
    params = (
        Param(name="y", kind=TENSOR, dtype="f32", rank=1, out=True),
        Param(name="x", kind=TENSOR, dtype="f32", rank=1),
    )
    abi = (slot("ptr", "y.ptr"), slot("ptr", "x.ptr"), slot("i32", "x.size"))
    launch = LaunchInfo(grid=("cdiv(x.size, 256)",), block=("256",))
    made = kernel(
        "spread", params, (VariantInfo(id="spread", abi=abi, images=(row,)),), launch=launch
    )
    return bundle_of(
        dataclasses.replace(made, launch=dataclasses.replace(launch, programmatic=early))
    )


@pytest.mark.parametrize("early", [False, True])
def test_a_chain_of_launches(torch, early: bool) -> None:
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("launches begin early from compute capability 9.0 on")
    spread = load(bundle(early), 0, jit_fallback="allow").spread
    one = torch.arange(1 << 20, dtype=torch.float32, device="cuda")
    two, expected = torch.empty_like(one), one + STEPS
    stream = torch.cuda.current_stream()
    for _ in range(STEPS // 2):
        spread(two, one, stream=stream)
        spread(one, two, stream=stream)
    torch.cuda.synchronize()
    assert torch.equal(one, expected)
