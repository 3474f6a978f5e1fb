"""LTO-IR as an image: what each frontend makes, the same bytes wherever that is, and what a link
for newer GPUs gives.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.runtime_samples import slot
from tests.toolchain import cuda_jobs, projects
from tests.toolchain.prebuilt_samples import FILL_LL, SCALE_PARAMS, SEARCH, fatbin, nvrtc_made
from tests.toolchain.prebuilt_samples import frontend as prebuilt_frontend
from tests.toolchain.prebuilt_samples import job as prebuilt_job
from tests.toolchain.prebuilt_samples import source as prebuilt_source
from tilec.frontends.tools import nvjitlink
from tilec.frontends.tools.search import require
from tilec.model.job import Member
from tilec.package.fatbin import write_fatbin
from tilec_runtime.bundle.cubin import CubinKernel, read_cubin
from tilec_runtime.device.nvjitlink import NvJitLink
from tilec_runtime.errors import CompileError
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.image import Image
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind

pytestmark = pytest.mark.toolchain

LTOIR = b"\xedCN\x7f"
KERNEL = """
#include "act.h"
extern "C" __device__ float fun(float x);
extern "C" __global__ void k(float* y, const float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = act(fun(x[i])) / x[i];
}
"""
FILES = {
    "k/a.cu": KERNEL,
    "k/act.h": "__device__ inline float act(float x) { return x > 0 ? x : 0.5f * x; }\n",
    "fun.cu": '#include <cuda_fp16.h>\nextern "C" __device__ float fun(float x) { return __half2float(__float2half(x)); }\n',
}
LINKED: dict[str, object] = {"options": {"link": ("fun.cu",)}}


def made_of(root: Path, files: dict[str, str] = FILES, target: str = "lto_80", **more) -> Image:
    return cuda_jobs.frontend().compile(
        cuda_jobs.job(projects.write(root, files), "k", target, **more)
    )


def code_of(image: Image, arch: str) -> tuple[bytes, CubinKernel]:
    """Machine code as a launch has it made, and its entry point."""
    assert image.data.startswith(LTOIR)
    cubin = NvJitLink().compile(image.data, "k.ltoir", arch, TargetKind.LTOIR, image.info.linking)
    read = read_cubin(cubin)
    assert f"sm_{read.cc[0]}{read.cc[1]}" == arch
    return cubin, read.kernel(image.info.symbol)


def test_cuda_kernels_with_all_that_they_are_linked_with(tmp_path: Path) -> None:
    image = made_of(tmp_path, **LINKED)
    assert (str(image.info.target), image.info.ptx_isa, image.info.cuda[1]) == (
        "lto_80",
        NvJitLink().version,
        0,
    )
    assert [slot.type for slot in image.abi] == ["ptr", "ptr", "i32"]
    assert image.info.resources.registers is not None, (
        "measured on the machine code of its own architecture"
    )
    for arch in ("sm_80", "sm_90", "sm_120"):
        _, entry = code_of(image, arch)
        assert [param.size for param in entry.params] == [8, 8, 4]


def test_it_is_the_same_wherever_it_is_made(tmp_path: Path) -> None:
    here, there = (
        made_of(tmp_path / name, lineinfo=lines, **LINKED)
        for name, lines in (("one", True), ("and/another", False))
    )
    assert here.data == there.data
    alone = {"k/a.cu": 'extern "C" __global__ void k(float* y) { y[0] = 1.0f; }'}
    assert made_of(tmp_path / "1", alone).data == made_of(tmp_path / "long/er", alone).data


def test_what_the_code_does_not_say_is_told_to_the_linker(tmp_path: Path) -> None:
    plain = made_of(tmp_path / "plain", **LINKED)
    flags = ("--use_fast_math", "-maxrregcount=40")
    fast = made_of(
        tmp_path / "fast", options={"link": ("fun.cu",), "flags": flags}, opt=1
    )  # of which a linker knows 0 and 3
    assert plain.info.linking == ()
    assert fast.info.linking == (
        "-ftz=1",
        "-prec-div=0",
        "-prec-sqrt=0",
        "-fma=1",
        "-maxrregcount=40",
    )
    assert made_of(tmp_path / "0", opt=0, **LINKED).info.linking == ("-O0",)
    # A division that is exact takes a call, one that is not takes none.
    assert len(code_of(fast, "sm_90")[0]) < len(code_of(plain, "sm_90")[0])


def test_a_group_is_one_module(tmp_path: Path) -> None:
    text = "template <int N> __global__ void k(float* y) { y[threadIdx.x] = N; }\n"
    root = projects.write(tmp_path, {"k/a.cu": text})
    group = tuple(Member(symbol="k<{N}>", axes=(("N", n),)) for n in (1, 2))
    jobs = [
        dataclasses.replace(cuda_jobs.job(root, "k<{N}>", target, axes={"N": n}), group=group)
        for target in ("sm_80", "compute_80", "lto_80")
        for n in (1, 2)
    ]
    frontend = cuda_jobs.frontend()
    cubin, _, ptx, _, one, two = (frontend.compile(job) for job in jobs)
    assert one.data == two.data
    assert one.info.symbol != two.info.symbol
    for image in (one, two):
        code_of(image, "sm_90")
    # Code that a linker makes goes into no other image.
    alone = cuda_jobs.frontend()
    assert [
        alone.compile(jobs[4]).data,
        alone.compile(jobs[0]).data,
        alone.compile(jobs[2]).data,
    ] == [one.data, cubin.data, ptx.data]


@pytest.mark.parametrize(
    ("options", "what", "fix"),
    [
        (
            {"compiler": "nvcc"},
            'compiler = "nvcc" makes no lto_80: its LTO-IR holds paths of this machine',
            'take compiler = "nvrtc"',
        ),
        (
            {"flags": ("-Xptxas=-dlcm=ca",)},
            "-dlcm=ca is a flag of ptxas, which does not run when lto_80 is loaded",
            "leave lto_NN to other",
        ),
    ],
)
def test_what_cannot_be_shipped_is_refused_at_the_kernel(
    tmp_path: Path, options: dict[str, object], what: str, fix: str
) -> None:
    with pytest.raises(CompileError) as caught:
        made_of(
            tmp_path,
            {"k/a.cu": '\nextern "C" __global__ void k(float* y) { y[0] = 1; }'},
            options=options,
        )
    assert (what in caught.value.what, fix in caught.value.fix) == (True, True)
    assert caught.value.diagnostics[0].location is not None
    assert (
        caught.value.diagnostics[0].location.file,
        caught.value.diagnostics[0].location.line,
    ) == ("k/a.cu", 2)


# SIMT Python


MIXED = """import numpy as np
from numba import cuda, float32

from tilec import simt

relu = cuda.declare_device("relu", "float32(float32)", abi="c")


@simt.kernel
def mixed(z: simt.Mut[float32], x: simt.Ref[float32]):
    i = cuda.grid(1)
    cuda.cg.this_grid().sync()
    if i < z.size:
        z[i] = relu(x[i]) + float32(np.float16(x[i]) * np.float16(2.0))
"""
RELU = '#include "half.h"\nextern "C" __device__ float relu(float x) { return x > 0.0f ? x : half_of(x); }\n'
HALF = "__device__ inline float half_of(float x) { return 0.5f * x; }\n"


def test_options_of_a_simt_kernel_are_told_to_the_linker(tmp_path: Path) -> None:
    pytest.importorskip("numba_cuda")
    from tests.toolchain import simt_jobs

    job = simt_jobs.job(simt_jobs.write(tmp_path), "optioned", "lto_80")
    fast = ("-ftz=1", "-prec-div=0", "-prec-sqrt=0", "-fma=1", "-maxrregcount=24")
    assert simt_jobs.frontend().compile(job).info.linking == fast


def test_simt_kernels_with_what_numba_and_the_manifest_link(tmp_path: Path) -> None:
    """Arithmetic of f16 and the barrier of a grid come as CUDA C++, and so does a linked source."""
    pytest.importorskip("numba_cuda")
    from tests.toolchain import simt_jobs

    made = []
    for where in ("one", "and/another"):
        root = simt_jobs.write(
            tmp_path / where, {"a.py": MIXED, "c/relu.cu": RELU, "c/half.h": HALF}
        )
        job = simt_jobs.job(
            root,
            "mixed",
            "lto_80",
            params=(simt_jobs.Z, simt_jobs.tensor("x")),
            axes={},
            path="a.py",
            cooperative=True,
        )
        source = dataclasses.replace(job.spec.source, options=(("link", ("c/relu.cu",)),))
        job = dataclasses.replace(job, spec=dataclasses.replace(job.spec, source=source))
        made.append(simt_jobs.frontend().compile(job))
    assert made[0].data == made[1].data
    for arch in ("sm_90", "sm_120"):
        code_of(made[0], arch)


# Code that comes compiled


def prebuilt(root: Path, name: str, data: bytes, symbol: str = "scale") -> Image:
    where = prebuilt_source(root, {name: data})
    params = SCALE_PARAMS
    abi: tuple[AbiSlot, ...] = ()
    if symbol == "fill":
        params = (
            Param(name="y", kind=ParamKind.TENSOR, dtype="f32", rank=1, out=True),
            Param(name="v", kind=ParamKind.SCALAR, dtype="f32"),
        )
        abi = (slot("ptr", "y.ptr"), slot("f32", "v"), slot("i32", "y.size"))
    return prebuilt_frontend().compile(
        prebuilt_job(where, symbol, "lto_80", params=params, abi=abi)
    )


def test_prebuilt_ltoir_is_taken_as_it_is_and_out_of_a_fatbin(tmp_path: Path) -> None:
    data = nvrtc_made("LTOIR", "compute_80")
    plain = prebuilt(tmp_path, "scale.ltoir", data)
    assert plain.data == data
    inside = prebuilt(tmp_path, "lto.fatbin", fatbin(cubin=False, ptx=False, tileir=False))
    for image in (plain, inside):
        for arch in ("sm_80", "sm_90", "sm_120"):
            code_of(image, arch)


def test_nvvm_ir_becomes_ltoir_where_it_says_that_the_kernel_is_used(tmp_path: Path) -> None:
    with pytest.raises(
        CompileError, match="the LTO-IR of this NVVM IR has no kernel 'fill' any more"
    ) as caught:
        prebuilt(tmp_path, "fill.ll", FILL_LL.encode(), "fill")
    assert "mark it as used in the IR: @llvm.used = appending global" in caught.value.fix
    used = "[i8* bitcast (void (float*, float, i32)* @fill to i8*)]"
    line = f'@llvm.used = appending global [1 x i8*] {used}, section "llvm.metadata"\n'
    image = prebuilt(
        tmp_path,
        "used.ll",
        FILL_LL.replace("define void @fill", f"{line}define void @fill").encode(),
        "fill",
    )
    for arch in ("sm_80", "sm_90", "sm_120"):
        code_of(image, arch)


def test_a_fatbin_holds_it_with_what_its_link_is_told(tmp_path: Path) -> None:
    image = made_of(tmp_path, opt=0, **LINKED)
    made = write_fatbin([(image.info, image.data)])
    assert b"-O0" in made
    assert made == write_fatbin([(image.info, image.data)])
    piece = nvjitlink.Piece(name="k", kind="FATBIN", data=made)
    linker = require(("libnvJitLink",), SEARCH, digest=False)["libnvJitLink"]
    assert ".entry k(" in nvjitlink.link_ptx(linker.path, [piece], ["-arch=sm_90"]).text


# Loading
