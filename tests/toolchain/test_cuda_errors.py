"""What a user reads when CUDA C++ does not compile: place, line, caret, hint, variant, target, log
and command.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toolchain.cuda_jobs import NVCC, compile_text, job
from tests.toolchain.projects import write
from tilec.frontends.cuda.mangled import unseen
from tilec.model.job import Option, Source
from tilec_runtime.errors import CompileError

pytestmark = pytest.mark.toolchain

BOTH = pytest.mark.parametrize("options", [{}, NVCC], ids=["nvrtc", "nvcc"])


def refused(
    tmp_path: Path, text: str, symbol: str = "k", target: str = "sm_90", **kwargs
) -> CompileError:
    with pytest.raises(CompileError) as caught:
        compile_text(tmp_path, text, symbol, target, **kwargs)
    return caught.value


@BOTH
def test_a_type_error(tmp_path: Path, options: dict[str, Option]) -> None:
    text = (
        '__global__ void k(float* x) {\n\tif (x) {\n\t\tint a = foo(3);\n\t}\n  x[0] = "abc";\n}\n'
    )
    error = refused(tmp_path, text, options=options)
    assert error.what == "k/a.cu does not compile for sm_90: 2 errors"
    first, second = (d.render() for d in error.diagnostics if d.severity == "error")
    assert (
        first
        == 'k/a.cu:3:11: error: identifier "foo" is undefined\n    \t\tint a = foo(3);\n    \t\t        ^'
    )
    assert second.startswith(
        'k/a.cu:5:8: error: a value of type "const char *" cannot be assigned to an entity of type "float"'
    )
    assert 'identifier "foo" is undefined' in error.log
    assert error.command.startswith("nvcc ")
    assert str(tmp_path) not in error.command


OF_A_TYPE = "template <class T> __global__ void k(T* x) {}"
REFUSED = {
    "a missing header": (
        '// a\n#include "nope.h"\n__global__ void k(float* x) {}',
        "k",
        "k/a.cu:2",
        ("nope.h", "`include` in [frontend.cuda]"),
    ),
    "declared and not defined": (
        "__device__ float ext(float);\n__global__ void k(float* x) { x[0] = ext(x[1]); }",
        "k",
        "k/a.cu:2:17",
        ("ext (_Z3extf) is declared and defined nowhere", "include the file that defines it"),
    ),
    "a type of the matrix without its header": (
        OF_A_TYPE,
        "k<{T}>",
        "k/a.cu:1:36",
        ("#include <cuda_fp16.h>",),
    ),
    "a type without its header": (
        "__global__ void k(float* x) { __half h; }",
        "k",
        "k/a.cu:1",
        ("hint: #include <cuda_fp16.h>",),
    ),
    "an argument of the wrong kind": (
        OF_A_TYPE,
        "k<3>",
        "k/a.cu:1",
        ("the source has no instance k<3>: ", "k takes <T>: see that every argument fits"),
    ),
    "inside an instance": (
        'template <class T> __global__ void k(T* x) {\n  x[0] = T("a");\n}',
        "k<float>",
        "k/a.cu:2:",
        ("instantiation of",),
    ),
}


def said(error: CompileError) -> str:
    return "\n".join([str(error), *(found.render() for found in error.diagnostics)])


@BOTH
@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_compile(tmp_path: Path, options: dict[str, Option], name: str) -> None:
    text, symbol, place, words = REFUSED[name]
    error = refused(tmp_path, text, symbol, axes={"T": "f16"}, options=options)
    assert str(error.diagnostics[0].location).startswith(place)
    assert [each for each in words if each not in said(error)] == []


@pytest.mark.parametrize(
    ("header", "advice"),
    [
        ("vector", "leave it out of device code"),
        ("float.h", "#include <cuda/std/cfloat>"),
        ("limits", "#include <cuda/std/limits>"),
    ],
)
def test_a_host_header_in_nvrtc(tmp_path: Path, header: str, advice: str) -> None:
    text = f"#include <{header}>\n__global__ void k(float* x) {{}}"
    (found,) = refused(tmp_path, text, options={"compiler": "nvrtc"}).diagnostics
    assert found.hint == (
        f'NVRTC has no host headers: {advice}, or set compiler = "nvcc" in [frontend.cuda] or the kernel'
    )


@pytest.mark.parametrize("host", ["int f() { return 1; }", "int v;", "auto f = [] { return 1; };"])
def test_host_code_in_nvrtc(tmp_path: Path, host: str) -> None:
    found, *_ = refused(tmp_path, f"{host}\n__global__ void k(float* x) {{}}").diagnostics
    assert found.message.endswith("not allowed in JIT mode.")  # and not: take -default-device
    assert "mark it __device__" in found.hint


@BOTH
def test_a_kernel_that_the_preprocessor_leaves_out(
    tmp_path: Path, options: dict[str, Option]
) -> None:
    text = (
        "#ifndef K_CU\n#define K_CU\n#ifdef EXTRA\n__global__ void k(float* x) {}\n#endif\n#endif\n"
    )
    error = refused(tmp_path, text, options=options)
    assert error.what == "the preprocessor leaves k out: it is under #ifdef EXTRA (line 3)"
    assert error.fix.startswith('define what that asks for: define = { EXTRA = "1" }')
    compile_text(tmp_path, text, options={**options, "define": (("EXTRA", ""),)})


@BOTH
def test_a_double_for_a_float(tmp_path: Path, options: dict[str, Option]) -> None:
    text = "template <int N, float EPS> __global__ void k(float* x) { x[0] = EPS; }"
    told = {"axes": {"N": 2, "EPS": 1e-5}, "options": {**options, "std": "c++20"}}
    error = refused(tmp_path, text, "k<{N}, {EPS}>", **told)
    assert error.fix == (
        "k takes <N, EPS>: 1e-05 is a double, and a parameter of type float takes 1e-05f: write {NAME}f for its axis in symbol"
    )
    compile_text(tmp_path, text, "k<{N}, {EPS}f>", **told)


@BOTH
def test_no_warning_of_the_copy_that_nvcc_compiles(
    tmp_path: Path, options: dict[str, Option]
) -> None:
    text = "#pragma once\n__global__ void k(float* x) {}"
    assert compile_text(tmp_path, text, options=options).warnings == ()


@BOTH
def test_a_compiled_name_that_there_is_not(tmp_path: Path, options: dict[str, Option]) -> None:
    text = "#define MAKE(NAME) __global__ void NAME(float* x) {}\nMAKE(k)\nMAKE(j)\n"
    root = write(tmp_path, {"k/a.cu": text})
    decl = unseen("_Z1mPf", None, Source(root=str(root), path="k/a.cu"))
    error = refused(tmp_path, text, "_Z1mPf", decl=decl, options=options)
    assert error.what == "k/a.cu compiles to no kernel _Z1mPf"
    assert error.fix == "name one that it has: _Z1kPf, _Z1jPf"


def test_a_symbol_that_the_source_does_not_have(tmp_path: Path) -> None:
    text = "__global__ void kernel_a(float* x) {}"
    decl = job(write(tmp_path, {"k/a.cu": text}), "kernel_a").spec.decl
    error = refused(tmp_path, text, "kernel_b", decl=decl)
    assert error.what == 'the source has no instance kernel_b: identifier "kernel_b" is undefined'
    assert error.fix == "the source has kernel_a; did you mean 'kernel_a'"


@pytest.mark.parametrize("target", ["sm_90", "compute_90"])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('asm("foobar.u32 %0;");', ("foobar", "inline PTX")),
        (
            "__shared__ float s[100000]; s[threadIdx.x] = x[0]; __syncthreads(); x[1] = s[3];",
            ("uses too much shared data", "extern __shared__"),
        ),
    ],
    ids=["inline assembly", "too much shared memory"],
)
def test_what_ptxas_refuses_is_said_at_the_kernel(
    tmp_path: Path, target: str, body: str, words: tuple[str, ...]
) -> None:
    error = refused(tmp_path, f"__global__ void k(float* x) {{\n  {body}\n}}", target=target)
    found = next(each for each in error.diagnostics if words[0] in each.message)
    assert str(found.location) == "k/a.cu:1:17"
    assert words[1] in found.hint


def test_an_include_directory_that_is_gone(tmp_path: Path) -> None:
    text = "__global__ void k(float* x) {}"
    error = refused(tmp_path, text, options={"include": ("nodir",)})
    assert error.what == "k/a.cu: include directory nodir is not there"
