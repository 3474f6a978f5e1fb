"""Compiled kernels in every form, made by the toolkit, and jobs over them."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cuda.bindings import nvfatbin, nvrtc

from tests.toolchain import projects, tile_jobs
from tests.toolchain.projects import SEARCH
from tilec.frontends.prebuilt.frontend import PrebuiltFrontend
from tilec.model.job import Job, KernelSpec, Source, Variant
from tilec_runtime.model.arch import Target
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.signature import Param, ParamKind

SCALE = """struct Box { float low, high; double extra; };
extern "C" __global__ void __launch_bounds__(256) scale(float* y, const float* x, float s, int n, Box box) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fminf(x[i] * s, box.high);
}
"""
FILL_LL = """target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64\
-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

define void @fill(float* %y, float %value, i32 %n) {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %size = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %first = mul i32 %block, %size
  %i = add i32 %first, %tid
  %inside = icmp slt i32 %i, %n
  br i1 %inside, label %then, label %end
then:
  %wide = sext i32 %i to i64
  %place = getelementptr float, float* %y, i64 %wide
  store float %value, float* %place
  br label %end
end:
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
!nvvm.annotations = !{!0}
!0 = !{void (float*, float, i32)* @fill, !"kernel", i32 1}
!nvvmir.version = !{!1}
!1 = !{i32 2, i32 0}
"""
# What cuTile Python makes of one array: its address, extents and strides.
TILE_ARGS = tuple(
    text
    for name in "xyz"
    for text in (f"{name}.ptr", f"i32({name}.shape[0])", f"i32({name}.stride[0])")
)


@functools.cache
def nvrtc_made(kind: str, arch: str, text: str = SCALE) -> bytes:
    """What NVRTC makes of a source: `PTX`, `CUBIN` or `LTOIR`."""
    options = [f"-arch={arch}".encode(), *([b"-dlto"] if kind == "LTOIR" else [])]
    status, program = nvrtc.nvrtcCreateProgram(text.encode(), b"scale.cu", 0, [], [])
    assert not status
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    assert not status
    _, size = getattr(nvrtc, f"nvrtcGet{kind}Size")(program)
    data = bytearray(size)
    getattr(nvrtc, f"nvrtcGet{kind}")(program, data)
    return bytes(data)


@functools.cache
def tile_made(target: str) -> bytes:
    """A tile kernel `add_tile`, assembled for a target or as bytecode."""
    with tempfile.TemporaryDirectory() as folder:
        text = (
            "import cuda.tile as ct\n\n\n@ct.kernel\ndef add(x, y, z, n: ct.Constant[int]):\n    i = ct.bid(0)\n"
            "    ct.store(z, (i,), ct.load(x, (i,), (n,)) + ct.load(y, (i,), (n,)))\n"
        )
        root = projects.write(Path(folder), {"t.py": text})
        tile = tile_jobs.frontend()
        params = tile_jobs.vectors("x", "y", "z")
        return tile.compile(
            tile_jobs.job(tile, root, "t.py", "add", params, target=target, axes={"n": 128})
        ).data


def fatbin(
    *, cubin: bool = True, ptx: bool = True, ltoir: bool = True, tileir: bool = True
) -> bytes:
    """A compressed fatbin of such members."""
    handle = nvfatbin.create(["-compress=true", "-host=linux"], 2)
    if cubin:
        data = nvrtc_made("CUBIN", "sm_90")
        nvfatbin.add_cubin(handle, data, len(data), "90", "scale")
    if ptx:
        data = nvrtc_made("PTX", "compute_80")
        nvfatbin.add_ptx(handle, data, len(data), "80", "scale", "")
    if ltoir:
        data = nvrtc_made("LTOIR", "compute_80")
        nvfatbin.add_ltoir(handle, data, len(data), "80", "scale", "")
    if tileir:
        data = tile_made("tileir")
        nvfatbin.add_tile_ir(handle, data, len(data), "add", "")
    made = bytearray(nvfatbin.size(handle))
    nvfatbin.get(handle, made)
    nvfatbin.destroy(handle)
    return bytes(made)


def source(root: Path, files: Mapping[str, bytes], **stated: str) -> Source:
    """A source of files, the first of which is the kernel's `source`; their digests are stated as
    they are, or as `stated` says.
    """
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    digests = {name: sha256(data) for name, data in files.items()}
    first, *others = files
    options: list[tuple[str, str | tuple[tuple[str, str], ...]]] = [
        ("sha256", stated.get("sha256", digests[first]))
    ]
    if others:
        options.insert(0, ("files", tuple((name, digests[name]) for name in others)))
    return Source(root=str(root), path=first, options=tuple(options))


def frontend() -> PrebuiltFrontend:
    return PrebuiltFrontend(SEARCH)


SCALE_PARAMS = (
    Param(name="param_0", kind=ParamKind.TENSOR, dtype="f32", rank=1, out=True),
    Param(name="param_1", kind=ParamKind.TENSOR, dtype="f32", rank=1),
    Param(name="param_2", kind=ParamKind.SCALAR, dtype="f32"),
    Param(name="param_3", kind=ParamKind.SCALAR, dtype="i32"),
    Param(name="param_4", kind=ParamKind.STRUCT, size=16),
)


def job(
    where: Source,
    kernel: str = "scale",
    target: str = "sm_90",
    *,
    params: tuple[Param, ...] = SCALE_PARAMS,
    **spec: object,
) -> Job:
    """A job for one of a source's kernels."""
    decl = next(d for d in frontend().declare(where) if d.name == kernel)
    made = KernelSpec(
        name=kernel,
        language="prebuilt",
        source=where,
        decl=decl,
        symbol=kernel,
        params=params,
        **spec,
    )  # type: ignore[arg-type]
    return Job(spec=made, variant=Variant(kernel=kernel, id=kernel), target=Target.parse(target))
