"""Numbers that a kernel captures, as parameters of its launches."""

from __future__ import annotations

import dataclasses

import pytest

from tests.unit.plan.test_plan import problems
from tilec.manifest.types import Kernel, Launch, ParamTable
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec_runtime.errors import Location

SCALED = KernelDecl(
    name="scaled",
    location=Location(file="k.py", line=1),
    params=(ParamDecl(name="y", type="Mut[f32]", kind="tensor", dtype="f32", rank=1, out=True),),
    captures=(
        ParamDecl(name="scale", type="a float", kind="scalar", dtype="f64"),
        ParamDecl(name="count", type="an int", kind="scalar", dtype="i64"),
        ParamDecl(name="flag", type="a bool", kind="scalar", dtype="bool"),
        ParamDecl(name="table", type="an ndarray", kind="constant"),
    ),
)
KERNEL = Kernel(
    name="scaled",
    source="k.py",
    function="scaled",
    language="cuda",
    launch=Launch(grid=("1",), block=("32",)),
)


def with_params(*tables: ParamTable) -> Kernel:
    return dataclasses.replace(KERNEL, params=tables)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (ParamTable(name="scal"), "kernel 'scaled' has no parameter 'scal'; did you mean 'scale'"),
        (ParamTable(name="table"), "'table' cannot be a launch parameter: it is an ndarray"),
        (
            ParamTable(name="scale", rank=1),
            "'scale' is a captured number, which is passed as a scalar",
        ),
        (
            ParamTable(name="scale", kind="struct"),
            "'scale' is a captured number, which is passed as a scalar",
        ),
        (
            ParamTable(name="scale", dtype="i32"),
            "the kernel captures 'scale' as a float, which i32 does not hold",
        ),
        (
            ParamTable(name="count", dtype="bool"),
            "the kernel captures 'count' as an int, which bool does not hold",
        ),
        (
            ParamTable(name="flag", dtype="f32"),
            "the kernel captures 'flag' as a bool, which f32 does not hold",
        ),
    ],
)
def test_refuses_what_is_no_captured_number(table: ParamTable, message: str) -> None:
    (told,) = problems(with_params(table), decls={"scaled": SCALED})
    assert told.endswith(message)
