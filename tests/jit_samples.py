"""A kernel as PTX text of any ISA, or as LTO-IR of any CUDA release, in a bundle without machine
code.
"""

from __future__ import annotations

from tests.runtime_samples import IMAGES, SCALAR, TENSOR, bundle_of, kernel, slot
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.model.arch import Target, Version
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import KernelInfo, LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Param

_TEXT = """.version {isa}
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 y, .param .u64 x, .param .f32 s, .param .u32 n)
{{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [y];
    ld.param.u64 %rd2, [x];
    ld.param.f32 %f1, [s];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.s32 %p1, %r5, %r1;
    @%p1 bra DONE;
    {line}
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mul.wide.s32 %rd5, %r5, 4;
    add.s64 %rd6, %rd4, %rd5;
    add.s64 %rd7, %rd3, %rd5;
    ld.global.f32 %f2, [%rd6];
    mul.f32 %f3, %f2, %f1;
    st.global.f32 [%rd7], %f3;
DONE:
    ret;
}}
"""


def ptx_scale(isa: Version, *, line: str = "", jit: JitFallback | None = None) -> KernelInfo:
    """`y = x * s` as PTX; `line` is one more line of it."""
    return _scale(
        _TEXT.format(isa=f"{isa[0]}.{isa[1]}", line=line).encode(), "compute_80", isa, jit
    )


def ltoir_scale(data: bytes, made_by: Version, *, jit: JitFallback | None = None) -> KernelInfo:
    """The same kernel as LTO-IR for 8.0 that is said to be of a CUDA release."""
    return _scale(data, "lto_80", made_by, jit)


def _scale(data: bytes, target: str, version: Version, jit: JitFallback | None) -> KernelInfo:
    row = ImageInfo(
        target=Target.parse(target),
        digest=sha256(data),
        size=len(data),
        symbol="scale",
        ptx_isa=version,
    )
    IMAGES[row.digest] = data
    params = (
        Param(name="y", kind=TENSOR, dtype="f32", rank=1, out=True),
        Param(name="x", kind=TENSOR, dtype="f32", rank=1),
        Param(name="s", kind=SCALAR, dtype="f32"),
    )
    abi = (slot("ptr", "y.ptr"), slot("ptr", "x.ptr"), slot("f32", "s"), slot("i32", "x.shape[0]"))
    launch = LaunchInfo(grid=("cdiv(x.shape[0], 128)",), block=("128",))
    return kernel(
        "scale", params, (VariantInfo(id="scale", abi=abi, images=(row,)),), launch=launch, jit=jit
    )


def ptx_bundle(isa: Version, *, line: str = "", jit: JitFallback | None = None) -> Bundle:
    """A bundle of that kernel."""
    return bundle_of(ptx_scale(isa, line=line, jit=jit))
