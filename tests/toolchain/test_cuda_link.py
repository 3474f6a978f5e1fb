"""Linking: device functions of other sources and of libraries, in one image, for every kind of
target.
"""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from tests.toolchain.cuda_jobs import frontend, job
from tests.toolchain.projects import run_tool, write
from tilec.frontends.tools import ltoir
from tilec.model.job import Job, Member, Option
from tilec_runtime.bundle.cubin import read_cubin
from tilec_runtime.errors import CompileError, Location, UsageError

pytestmark = pytest.mark.toolchain

KERNEL = """#include "act.h"
template <typename T> __global__ void k(T* y, const T* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = ops::act(x[i]);
}
"""
HEADER = "#pragma once\nnamespace ops { __device__ float act(float x); }\n"
ACT = '#include "act.h"\n#include "slope.cuh"\nnamespace ops { __device__ float act(float x) { return x > 0 ? x : SLOPE * x; } }\n'
FILES = {
    "k/a.cu": KERNEL,
    "k/act.h": HEADER,
    "lib/act.cu": ACT,
    "lib/slope.cuh": "#define SLOPE 0.125f\n",
    "lib/act.h": HEADER,
}
LINK: dict[str, Option] = {"link": ("lib/act.cu",), "include": ("k",)}


def make_library(root: Path, name: str, *flags: str, text: str = ACT) -> None:
    """A library that nvcc makes of one source."""
    (root / "act_lib.cu").write_text(text, encoding="utf-8")
    made = "lib.o" if name.endswith(".a") else name
    kind = {".fatbin": ("-fatbin", "-rdc=true"), ".ltoir": ("-ltoir", "-rdc=true")}.get(
        Path(name).suffix, ("-dc",)
    )
    run_tool("nvcc", *kind, *flags, "-Ilib", "act_lib.cu", "-o", made, cwd=root)
    if name.endswith(".a"):
        subprocess.run(["ar", "rcs", name, made], cwd=root, check=True, timeout=120)
    (root / "act_lib.cu").unlink()


def failure(one: Job) -> CompileError:
    with pytest.raises(CompileError) as caught:
        frontend().compile(one)
    return caught.value


# --- sources
# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["sm_90a", "compute_80"])
def test_a_function_of_another_source_becomes_part_of_the_kernel(
    tmp_path: Path, target: str
) -> None:
    root = write(tmp_path, FILES)
    image = frontend().compile(job(root, "k<float>", target, options=LINK))
    assert [slot.expr for slot in image.abi] == ["y.ptr", "x.ptr", "n"]
    assert image.info.symbol == "_Z1kIfEvPT_PKS0_i"
    assert image.info.resources.spill_stores == 0
    if target == "compute_80":
        text = image.data.decode()
        assert ".target sm_80" in text
        assert "0f3E000000" in text, "the slope of the linked file's own header, inlined"
        assert "call" not in text
        assert image.info.ptx_isa == (9, 4)
    else:
        assert [kernel.name for kernel in read_cubin(image.data).kernels] == [image.info.symbol]


def test_linked_code_is_what_one_source_would_give(tmp_path: Path) -> None:
    whole = KERNEL.replace(
        '#include "act.h"',
        "namespace ops { __device__ float act(float x) { return x > 0 ? x : 0.125f * x; } }",
    )
    root = write(tmp_path, {**FILES, "k/b.cu": whole})
    linked = frontend().compile(job(root, "k<float>", options=LINK)).info.resources
    alone = frontend().compile(job(root, "k<float>", path="k/b.cu")).info.resources
    assert (linked.registers, linked.stack, linked.code) == (
        alone.registers,
        alone.stack,
        alone.code,
    )


def test_a_linked_source_is_compiled_for_the_jobs_own_architecture(tmp_path: Path) -> None:
    act = ACT.replace("SLOPE * x", "__CUDA_ARCH__ * x")
    root = write(tmp_path, {**FILES, "lib/act.cu": act})
    for target, shown in (
        ("compute_80", "0f44480000"),
        ("compute_90", "0f44610000"),
    ):  # 800.0 and 900.0
        assert (
            shown in frontend().compile(job(root, "k<float>", target, options=LINK)).data.decode()
        )


def test_arithmetic_flags_hold_for_what_is_linked(tmp_path: Path) -> None:
    text = '__device__ float act(float x); extern "C" __global__ void k(float* y) { y[0] = y[1] * y[2] + act(y[3]); }'
    root = write(
        tmp_path,
        {"k/a.cu": text, "act.cu": "__device__ float act(float x) { return x * x + 1.0f; }"},
    )
    fused = (
        frontend()
        .compile(job(root, "k", "compute_80", options={"link": ("act.cu",)}))
        .data.decode()
    )
    plain = (
        frontend()
        .compile(
            job(root, "k", "compute_80", options={"link": ("act.cu",), "flags": ("-fmad=false",)})
        )
        .data.decode()
    )
    assert "fma.rn.f32" in fused
    assert "fma" not in plain
    assert ltoir.arithmetic(("--use_fast_math",)) == [
        "-ftz=1",
        "-prec-div=0",
        "-prec-sqrt=0",
        "-fma=1",
    ]


def test_a_kernel_of_the_source_that_needs_more_is_in_nobodys_way(tmp_path: Path) -> None:
    more = (
        KERNEL
        + "__device__ float missing(float x);\n__global__ void other(float* y) { y[0] = missing(y[0]); }\n"
    )
    root = write(tmp_path, {**FILES, "k/a.cu": more})
    image = frontend().compile(job(root, "k<float>", options=LINK))
    assert [kernel.name for kernel in read_cubin(image.data).kernels] == [image.info.symbol]


def test_the_variants_of_a_group_share_the_linked_functions(tmp_path: Path) -> None:
    text = KERNEL.replace("typename T>", "typename T, int N>").replace(
        "ops::act(x[i])", "ops::act(x[i]) * N"
    )
    root = write(tmp_path, {**FILES, "k/a.cu": text})
    members = tuple(Member(symbol="k<float, {N}>", axes=(("N", n),)) for n in (1, 2, 3))
    jobs = [job(root, "k<float, {N}>", axes={"N": n}, options=LINK) for n in (1, 2, 3)]
    shared = frontend()
    images = [shared.compile(dataclasses.replace(one, group=members)) for one in jobs]
    assert len({image.info.digest for image in images}) == 1
    alone = frontend().compile(jobs[1])
    assert alone.info.resources.registers == images[1].info.resources.registers


def test_a_variant_that_cannot_be_linked_leaves_the_rest_of_its_group_alone(tmp_path: Path) -> None:
    text = (
        '#include "act.h"\n__device__ float missing(float x);\n'
        "template <int N> __global__ void k(float* y) { if constexpr (N == 2) y[0] = missing(y[0]); else y[0] = ops::act(y[0]); }\n"
    )
    root = write(tmp_path, {**FILES, "k/a.cu": text})
    members = tuple(Member(symbol="k<{N}>", axes=(("N", n),)) for n in (1, 2))
    good, bad = (
        dataclasses.replace(job(root, "k<{N}>", axes={"N": n}, options=LINK), group=members)
        for n in (1, 2)
    )
    shared = frontend()
    assert shared.compile(good).info.symbol
    with pytest.raises(
        CompileError,
        match=r"missing \(_Z7missingf\) is declared and defined nowhere",
    ):
        shared.compile(bad)


# --- libraries
# --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["libact.a", "act.o", "act.fatbin", "act.ltoir"])
def test_a_library_of_lto_ir_is_linked_for_newer_targets_and_for_ptx(
    tmp_path: Path, name: str
) -> None:
    root = write(tmp_path, FILES)
    make_library(root, name, "-gencode", "arch=compute_80,code=lto_80")
    options: dict[str, Option] = {"link": (name,), "include": ("k",)}
    assert (
        frontend().compile(job(root, "k<float>", "sm_90", options=options)).info.resources.stack
        == 0
    )
    assert (
        "0f3E000000"
        in frontend().compile(job(root, "k<float>", "compute_80", options=options)).data.decode()
    )
    assert name in [
        file.name for file in frontend().inputs(job(root, "k<float>", options=options).spec.source)
    ]


@pytest.mark.parametrize(
    ("name", "flags", "target", "what", "fix"),
    [
        (
            "libact.a",
            ("-arch=sm_90",),
            "sm_90",
            "requires that all inputs have LTOIR",
            "every library needs LTO-IR",
        ),
        (
            "act.ltoir",
            ("-gencode", "arch=compute_90,code=lto_90"),
            "sm_80",
            "(90) in LTOIR arch newer than target arch",
            "for this architecture or an older one",
        ),
    ],
    ids=["machine code", "newer than the target"],
)
def test_a_library_that_cannot_be_linked(
    tmp_path: Path, name: str, flags: tuple[str, ...], target: str, what: str, fix: str
) -> None:
    root = write(tmp_path, FILES)
    make_library(root, name, *flags)
    error = failure(job(root, "k<float>", target, options={"link": (name,), "include": ("k",)}))
    assert (what in error.what, fix in error.fix) == (True, True)


def test_a_damaged_library(tmp_path: Path) -> None:
    root = write(tmp_path, FILES)
    make_library(root, "act.ltoir", "-gencode", "arch=compute_80,code=lto_80")
    data = (root / "act.ltoir").read_bytes()
    (root / "act.ltoir").write_bytes(data[:500])
    options: dict[str, Option] = {"link": ("act.ltoir",), "include": ("k",)}
    error = failure(job(root, "k<float>", "sm_80", options=options))
    assert error.what.startswith("act.ltoir: nvJitLink does not link k/a.cu for sm_80: act.ltoir: ")
    assert error.diagnostics[0].location == Location(file="act.ltoir", line=1)
    (root / "act.ltoir").write_bytes(b"nothing")
    assert (
        "act.ltoir: it is no archive, object, fatbin or LTO-IR: it begins with 6e 6f 74"
        in failure(job(root, "k<float>", options=options)).what
    )


# --- undefined, twice, dropped
# ----------------------------------------------------------------------------------------------------


AGAIN: dict[str, Option] = {**LINK, "link": ("lib/act.cu", "lib/again.cu")}


@pytest.mark.parametrize(
    ("file", "text", "options", "what", "location"),
    [
        (
            "lib/act.cu",
            "__device__ float other(float x) { return x; }\n",
            LINK,
            "ops::act (_ZN3ops3actEf) is declared and defined nowhere",
            "k/a.cu",
        ),
        (
            "lib/again.cu",
            ACT,
            AGAIN,
            "_ZN3ops3actEf': symbol multiply defined",
            "lib/again.cu:1",
        ),
        (
            "lib/act.cu",
            ACT.replace("SLOPE", "SLOP"),
            LINK,
            "lib/act.cu, which k/a.cu is linked with, does not compile for sm_90",
            "lib/act.cu:3",
        ),
    ],
    ids=["undefined", "defined twice", "wrong"],
)
def test_a_linked_source_that_does_not_do(
    tmp_path: Path, file: str, text: str, options: dict[str, Option], what: str, location: str
) -> None:
    error = failure(job(write(tmp_path, {**FILES, file: text}), "k<float>", options=options))
    assert what in error.what
    assert str(error.diagnostics[0].location).startswith(location)


@pytest.mark.parametrize("target", ["sm_90", "compute_80"])
def test_an_undefined_variable_is_named(tmp_path: Path, target: str) -> None:
    text = 'extern "C" __device__ float act(float);\nextern "C" __global__ void k(float* y) { y[0] = act(y[1]); }\n'
    act = 'extern __device__ float factor;\nextern "C" __device__ float act(float x) { return factor * x; }\n'
    root = write(
        tmp_path, {"k/a.cu": text, "act.cu": act, "factor.cu": "__device__ float factor = 2.0f;\n"}
    )
    error = failure(job(root, "k", target, options={"link": ("act.cu",)}))
    assert "factor is declared and defined nowhere" in error.what
    made = frontend().compile(job(root, "k", target, options={"link": ("act.cu", "factor.cu")}))
    assert made.info.symbol == "k"


def test_nvcc_links_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='compiler = "nvcc" links no device functions'):
        frontend().compile(
            job(write(tmp_path, FILES), "k<float>", options={**LINK, "compiler": "nvcc"})
        )
