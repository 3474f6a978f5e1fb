"""Compilers' words become located messages with the user's line, a caret and a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilec.frontends.tools.cpp.diagnostics import hint, read_log
from tilec_runtime.errors import Diagnostic, Location

SOURCE = '__global__ void k(float* x) {\n\tif (x) {\n\t\tint a = foo(3);\n  x[0] = "abc"\n}\n}\n__device__ float ext(float);\n'


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / "k").mkdir()
    (tmp_path / "k/a b.cu").write_text(SOURCE)
    return str(tmp_path)


def read(log: str, root: str) -> list[Diagnostic]:
    return list(
        read_log(
            log,
            root,
            toolkit="/opt/cuda/include",
            fallback=Location(file="k/a b.cu", line=1, column=17),
        ).diagnostics
    )


def test_tabs_that_a_compiler_changed_do_not_move_the_caret(root: str) -> None:
    (found,) = read(
        './k/a b.cu(3): error: identifier "foo" is undefined\n    int a = foo(3);\n            ^\n',
        root,
    )
    assert str(found.location) == "k/a b.cu:3:11"


def test_a_byte_order_mark_is_named(root: str) -> None:
    (Path(root) / "k" / "marked.cu").write_bytes(b"\xef\xbb\xbf// text\nint x;\n")
    first, second = read(
        'k/marked.cu(1): error: unrecognized token\n\nk/marked.cu(2): error: expected a ";"\n', root
    )
    assert (
        first.hint
        == "the file begins with a byte order mark, which no CUDA compiler reads: save it as plain UTF-8"
    )
    assert "byte order mark" not in second.hint


def test_information_is_no_message(root: str) -> None:
    log = "ptxas info    : 0 bytes gmem\nptxas info    : Used 12 registers, used 1 barriers\nRemark: The warnings can be suppressed\n"
    assert read(log, root) == []


def test_errors_in_toolkit_headers_stay_and_are_named_without_their_directory(root: str) -> None:
    (found,) = read("/opt/cuda/include/cub/util.cuh(9): error: static assertion failed\n", root)
    assert str(found.location) == "<cuda>/cub/util.cuh:9"


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ('identifier "__half" is undefined', "#include <cuda_fp16.h>"),
        ('identifier "nv_bfloat16" is undefined', "#include <cuda_bf16.h>"),
        ('identifier "__nv_fp8_e4m3" is undefined', "#include <cuda_fp8.h>"),
        ('identifier "uint32_t" is undefined', "#include <cuda/std/cstdint>"),
        ('cannot open source file "type_traits"', "<cuda/std/type_traits>"),
        ('cannot open source file "mine.h"', "`include`"),
        ('cannot open source file "math.h"', "NVRTC has no host headers"),
        ('cannot open source file "assert.h"', "NVRTC has no host headers"),
        ('cannot open source file "curand_kernel.h"', "pip install nvidia-curand"),
        (
            "device-side kernel launch could not be processed as the required runtime APIs are not declared",
            "launch it from the host",
        ),
        (
            'calling a __host__ function("f()") from a __global__ function("k") is not allowed',
            "mark it __device__",
        ),
        ('namespace "std" has no member "sort"', "cuda::std"),
        ('expected a ";"', "line before"),
        ("unrecognized option --foo found", "`flags`"),
        ("something else", ""),
    ],
)
def test_hints(message: str, advice: str) -> None:
    assert advice in hint(message)
    assert bool(advice) == bool(hint(message))
