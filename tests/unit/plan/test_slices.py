"""Slices in the manifest: one array for an address and a length of the source."""

from __future__ import annotations

import dataclasses

import pytest

from tests.unit.plan.test_plan import plan, problems
from tilec.manifest.types import Case, Input, Kernel, Launch, ParamTable
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec_runtime.errors import Location


def array(name: str, *, out: bool) -> ParamDecl:
    return ParamDecl(name=name, type="float*", kind="tensor", dtype="f32", out=out)


def number(name: str, dtype: str) -> ParamDecl:
    return ParamDecl(name=name, type=dtype, kind="scalar", dtype=dtype)


VECADD = KernelDecl(
    name="vecadd",
    location=Location(file="k.cu", line=1),
    params=(
        array("a", out=False),
        number("a_len", "u64"),
        number("scale", "f32"),
        array("c", out=True),
        number("c_len", "i32"),
    ),
)
KERNEL = Kernel(
    name="vecadd",
    source="k.cu",
    function="vecadd",
    language="cuda",
    params=(ParamTable(name="c", kind="slice"), ParamTable(name="a", kind="slice", doc="in")),
    launch=Launch(open=("grid", "block")),
)


def test_cases_need_a_default_for_open_grids() -> None:
    case = Case(
        name="small",
        inputs=(
            Input(name="a", shape=("8",)),
            Input(name="c", shape=("8",)),
            Input(name="scale", value=2),
        ),
    )
    kernel = dataclasses.replace(KERNEL, cases=(case,))
    (told,) = problems(kernel, decls={"vecadd": VECADD})
    assert told.endswith(
        "cases launch without a config: give what is open too, which they then take"
    )
    launch = Launch(grid=("cdiv(c.size, 256)",), block=("256",), open=("grid", "block", "shared"))
    (planned,) = plan(dataclasses.replace(kernel, launch=launch), decls={"vecadd": VECADD}).kernels
    assert planned.info.launch.preset
    assert planned.info.launch.open == ("grid", "block", "shared")


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ((array("a", out=False),), "is missing"),
        ((array("a", out=False), number("eps", "f32")), "is f32 eps"),
        ((array("a", out=False), array("c", out=True)), "is float* c"),
    ],
)
def test_a_length_has_to_follow(params: tuple[ParamDecl, ...], found: str) -> None:
    decl = dataclasses.replace(VECADD, params=params)
    kernel = dataclasses.replace(KERNEL, params=(ParamTable(name="a", kind="slice"),))
    (told,) = problems(kernel, decls={"vecadd": decl})
    assert told.endswith(
        f"a slice is an address and an integer behind it, and what follows float* a in the source {found}"
    )
