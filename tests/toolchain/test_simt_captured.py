"""SIMT kernels that a function makes: what they capture is a constant of each, or an axis of the
matrix.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.toolchain.simt_jobs import frontend, job, scalar, tensor, write
from tilec.model.declaration import KernelDecl
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


PASSED = """GAIN, BIAS, TABLE = 3, np.float32(1), (1, 2)


@cuda.jit(device=True)
def biased(v):
    return v + BIAS


def outer(scale, size=simt.size("SIZE")):
    @cuda.jit(device=True)
    def inside(v):
        return v * scale

    @cuda.jit
    def passing(y, x, n: simt.Const[int] = 2):
        i = cuda.grid(1)
        if i < y.size:
            y[i] = square(x[i]) * scale * GAIN + BIAS + TABLE[0] * n

    @cuda.jit
    def constant(y, x):
        y[0] = inside(x[0]) * scale + biased(BIAS) + GAIN + size

    return passing, constant


@cuda.jit
def nested(y, x):
    def inside(v):
        return v * GAIN

    y[0] = inside(x[0])


@cuda.jit
def declaring(y, x):
    global GAIN
    y[0] = x[0] * GAIN


passing, constant = outer(2.0)
other, _ = outer(5.0)
"""


@pytest.fixture(scope="module")
def passing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("passing"), {"k/__init__.py": "", "k/a.py": HEAD + PASSED})


def declared(root: Path, name: str) -> KernelDecl:
    kernels = frontend().declare(Source(root=str(root), path="k/a.py"))
    return next(kernel for kernel in kernels if kernel.name == name)


def test_numbers_around_a_kernel_are_declared_unless_a_device_function_reads_them(
    passing: Path,
) -> None:
    found = {c.name: (c.kind, c.type, c.dtype) for c in declared(passing, "passing").captures}
    assert found == {
        "scale": ("scalar", "a float", "f64"),
        "GAIN": ("scalar", "an int", "i64"),
        "BIAS": ("scalar", "a float32", "f32"),
        "TABLE": ("constant", "a tuple", ""),
    }
    read = "also read by a device function, as a constant"
    found = {c.name: (c.kind, c.type, c.dtype) for c in declared(passing, "constant").captures}
    assert found == {
        "scale": ("constant", read, ""),
        "GAIN": ("scalar", "an int", "i64"),
        "BIAS": ("constant", read, ""),
        "size": ("constant", "the axis SIZE of the matrix", ""),
    }


def passed(root: Path, name: str, **dtypes: str) -> Image:
    """The image of a kernel with captured numbers as parameters."""
    params = (tensor("y", out=True), tensor("x"), *(scalar(n, d) for n, d in dtypes.items()))
    made = job(root, name, "compute_80", params=params, axes={})
    captures = {capture.name: capture for capture in made.spec.decl.captures}
    added = (dataclasses.replace(captures[n], dtype=d) for n, d in dtypes.items())
    decl = dataclasses.replace(made.spec.decl, params=(*made.spec.decl.params, *added))
    return frontend().compile(
        dataclasses.replace(made, spec=dataclasses.replace(made.spec, decl=decl))
    )


def test_captured_numbers_that_are_launch_parameters_are_no_constants(passing: Path) -> None:
    image = passed(passing, "passing", scale="f32", GAIN="i64")
    assert [(slot.type, slot.expr) for slot in image.abi][-2:] == [
        ("f32", "scale"),
        ("i64", "GAIN"),
    ]
    # Two kernels that captured different values are one code.
    other = passed(passing, "other", scale="f32", GAIN="i64")
    assert image.data == other.data.replace(b"other", b"passing")


def test_a_function_inside_of_the_kernel_sees_the_passed_number(passing: Path) -> None:
    image = passed(passing, "nested", GAIN="f32")
    assert b".param .f32" in image.data
    assert b"mul.f32" in image.data or b"mul.rn.f32" in image.data


def test_a_passed_number_that_the_kernel_declares_as_global_is_refused(passing: Path) -> None:
    with pytest.raises(CompileError, match="name 'GAIN' is parameter and global"):
        passed(passing, "declaring", GAIN="f32")


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
