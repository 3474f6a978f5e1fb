"""Lists of arrays: the parameters and conditions that they stand for, and what is reported."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.plan.test_source import Reports
from tilec.manifest.types import Case, Input, Kernel, Launch, Matrix, Op, ParamTable
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.plan.lists import ArrayList, list_params, with_lists, with_optional
from tilec.plan.matrix import expand
from tilec.plan.points import MatrixPoint
from tilec.plan.report import Report
from tilec_runtime.errors import Location
from tilec_runtime.model.signature import ListParam, Param, ParamKind

DECL = KernelDecl(
    name="grouped",
    location=Location(file="k.py", line=3),
    params=tuple(ParamDecl(name=name, kind="tensor") for name in ("c", "x", "a")),
)


def kernel(counts: tuple[Any, ...] = (2, 4), **changed: Any) -> Kernel:
    facts: dict[str, Any] = {
        "name": "grouped",
        "source": "k.py",
        "function": "grouped",
        "language": "tile",
        "matrix": Matrix(axes=(("G", counts),)),
        "params": tuple(ParamTable(name=name, rank=1, list="G") for name in ("a", "c")),
        "launch": Launch(grid=("G",), requires=("a.size == c.size", "x.size > 0")),
    }
    return Kernel(**facts | changed)


def reported(kernel: Kernel) -> list[tuple[str, str]]:
    problems = Reports()
    with_lists(kernel, DECL, Report(problems))
    return [(".".join(map(str, path)), what) for what, path in problems]


def refuse(what: str, path: tuple[str | int, ...], column: int) -> None:
    raise AssertionError(f"{path}: {what}")


NO_REPORT = Report(refuse)


def test_a_list_is_a_parameter_for_each_array() -> None:
    planned, decl, lists = with_lists(kernel(), DECL, NO_REPORT)
    names = ["c_0", "c_1", "c_2", "c_3", "x", "a_0", "a_1", "a_2", "a_3"]
    assert [param.name for param in decl.params] == names
    assert planned.launch.requires == (
        "a_0.size == c_0.size",
        "x.size > 0",  # as in the manifest
        *(f"a_{place}.size == c_{place}.size" for place in (1, 2, 3)),
    )
    assert lists == tuple(ArrayList(name=n, counts=(2, 4), axis="G") for n in ("c", "a"))
    params = with_optional([Param(name=n, kind=ParamKind.TENSOR, rank=1) for n in names], lists)
    assert [param.name for param in params if param.optional] == ["c_2", "c_3", "a_2", "a_3"]
    assert list_params(params, lists) == tuple(
        ListParam(name=name, first=first, most=4, axis="G") for name, first in (("c", 0), ("a", 5))
    )
    points = [MatrixPoint(axes=(("G", count),)) for count in (2, 4)]
    variants = expand(planned, points, params, NO_REPORT, lists=lists)
    assert [
        (variant.id, [fact.param for fact in variant.assume if fact.absent]) for variant in variants
    ] == [("grouped-G2", ["c_2", "c_3", "a_2", "a_3"]), ("grouped-G4", [])]


def case(*names: str, **axes: Any) -> tuple[Case, ...]:
    inputs = tuple(Input(name=name, shape=("8",)) for name in names)
    return (Case(name="some", inputs=inputs, axes=tuple(axes.items())),)


@pytest.mark.parametrize(
    ("changed", "where", "text"),
    [
        ({"language": "triton"}, "params.a.list", "cuTile Python kernels alone"),
        ({"counts": (2, 65)}, "params.a.list", "G is 65: a list has 1 to 64 arrays"),
        ({"counts": (2, True)}, "params.a.list", "G is True: a list has 1 to 64 arrays"),
        ({"matrix": Matrix()}, "params.a.list", "'G' is no axis of the matrix"),
        ({"op": Op()}, "op", "a is a list of arrays, and operators take arrays and numbers"),
        (
            {"cases": case("a_0", "a_1", "a_2", "c_0", "c_1")},
            "case.some.inputs",
            "a has 3 arrays, and takes 2 or 4: a_0, a_1, …",
        ),
        (
            {"cases": case("a_0", "a_2", "c_0", "c_1")},
            "case.some.inputs",
            "a has 2 arrays, and takes 2 or 4: a_0, a_1, …",
        ),
        (
            {"cases": case("a_0", "a_1", "c_0", "c_1", "c_2", "c_3")},
            "case.some.inputs",
            "c has 4 arrays, and G is 2: give as many",
        ),
        (
            {"cases": case("a_0", "a_1", "c_0", "c_1", G=4)},
            "case.some.inputs",
            "a has 2 arrays, and G is 4: give as many",
        ),
    ],
)
def test_reports(changed: dict[str, Any], where: str, text: str) -> None:
    problems = reported(kernel(**changed))
    assert any(place == where and text in what for place, what in problems), problems
