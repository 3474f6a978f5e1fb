"""SIMT kernels that a function makes: what they capture is a constant of each, or an axis of the
matrix.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toolchain.simt_jobs import frontend, job, tensor, write
from tilec.frontends.simt.function import captured, capturing
from tilec.model.job import Source
from tilec_runtime.errors import CompileError
from tilec_runtime.model.image import Image

pytestmark = pytest.mark.toolchain
pytest.importorskip("numba_cuda")

HEAD = """import numpy as np
from numba import cuda, float32
from tilec import simt


@cuda.jit(device=True)
def square(v):
    return v * v


def plain(v):
    return v


def make(alpha, op=square, kind=float32):
    @simt.kernel
    def scaled(y: simt.Mut[kind], x: simt.Ref[kind]):
        i = cuda.grid(1)
        if i < y.size:
            y[i] = op(x[i]) * alpha

    return scaled


"""
MADE = """half, third = make(float32(0.5)), make(float32(0.25))
sized = make(simt.size("ALPHA"))
typed = make(2, kind=simt.dtype("T"))
"""


def compiled(root: Path, name: str, **axes: object) -> Image:
    params = tuple(tensor(n, "T" if name == "typed" else "f32", out=n == "y") for n in "yx")
    return frontend().compile(job(root, name, "compute_80", params=params, axes=axes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("captured"), {"k/__init__.py": "", "k/a.py": HEAD + MADE})


def test_each_kernel_has_the_numbers_that_it_captured(root: Path) -> None:
    half, third = (compiled(root, name) for name in ("half", "third"))
    assert (half.info.symbol, third.info.symbol) == ("half", "third")
    assert "0f3F000000" in half.data.decode()
    assert "0f3E800000" in third.data.decode()
    assert [slot.expr for slot in half.abi] == ["y.ptr", "y.shape[0]", "x.ptr", "x.shape[0]"]


def test_an_axis_that_is_captured_has_the_variants_value(root: Path) -> None:
    declared = {
        decl.name: decl for decl in frontend().declare(Source(root=str(root), path="k/a.py"))
    }
    assert [(use.name, use.dtype, use.where) for use in declared["sized"].axes] == [
        ("ALPHA", False, "alpha, which it captures")
    ]
    three, five = (compiled(root, "sized", ALPHA=alpha).data for alpha in (3, 5))
    assert three != five
    assert [(use.name, use.dtype) for use in declared["typed"].axes] == [("T", True)]
    assert compiled(root, "typed", T="f64").data != compiled(root, "typed", T="f32").data


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (
            "bad = make([1, 2])",
            "kernel 'bad': it captures 'alpha', a list, and what a kernel captures is a constant of it",
        ),
        (
            "bad = make({1: 2})",
            "kernel 'bad': it captures 'alpha', a dict, and what a kernel captures is a constant of it",
        ),
        ("bad = make(1, plain)", "kernel 'bad': it captures 'op', which is no device function"),
        ("bad = make(1, make(1))", "kernel 'bad': it captures 'op', which is no device function"),
    ],
)
def test_what_cannot_be_captured(tmp_path: Path, made: str, what: str) -> None:
    root = write(tmp_path, {"k/__init__.py": "", "k/a.py": HEAD + made + "\n"})
    with pytest.raises(CompileError) as caught:
        frontend().declare(Source(root=str(root), path="k/a.py"))
    (problem,) = caught.value.diagnostics
    assert problem.message == what
    assert problem.location is not None
    assert (problem.location.file, problem.location.line) == (
        "k/a.py",
        HEAD.split("    def scaled")[0].count("\n") + 1,
    )
    assert problem.hint


def test_a_function_with_other_values_in_the_place_of_what_it_captures() -> None:
    def outer(a: int, b: int):  # type: ignore[no-untyped-def]
        def inner(c: int = 1) -> int:
            """Sum."""
            return a + b + c

        return inner

    function = outer(1, 10)
    assert captured(function) == {"a": 1, "b": 10}
    made = capturing(function, {"a": 5})
    assert (made(), made(2), function(), made.__doc__) == (16, 17, 12, "Sum.")
