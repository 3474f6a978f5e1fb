"""Cases bound to a built kernel: dtypes, axes, names, and what is wrong with them."""

from __future__ import annotations

import pytest

from tests.unit.case.conftest import At, case, info, kernel, made, tensor
from tilec.case.cases import expand_cases, unbuilt_cases
from tilec.manifest.types import Kernel, Matrix, ParamTable
from tilec_runtime.errors import CaseError, Location

TWO = ({"T": "f16", "VEC": 1}, {"T": "f32", "VEC": 1}, {"T": "f32", "VEC": 4})


def add(**more: object):
    return info(tensor("z", out=True), tensor("x"), **more)


def test_an_open_dtype_axis_runs_for_each_built_value() -> None:
    bound = expand_cases(
        kernel(case("1k", made("x", 4), made("z", 4))), add(points=({"T": "f16"}, {"T": "bf16"}))
    )
    assert [b.name for b in bound] == ["add/1k[f16]", "add/1k[bf16]"]
    assert [b.axes for b in bound] == [(("T", "f16"),), (("T", "bf16"),)]
    assert [p.dtype for p in bound[1].params] == ["bf16", "bf16"]
    assert [i.dtype for i in bound[1].inputs] == ["bf16", "bf16"]
    assert bound[0].outs == ("z",)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (
            case("c", made("xx", 4), made("x", 4), made("z", 4)),
            "add/c: the launcher has no parameter 'xx'; did you mean 'x'",
        ),
        (case("c", made("x", 4)), "add/c: nothing is given for 'z'"),
        (
            case("c", made("x", 4), made("z", 4), axes=(("VAC", 4),)),
            "add/c: the kernel has no axis 'VAC'; did you mean 'VEC'",
        ),
        (
            case("c", made("x", 4, dtype="f61"), made("z", 4)),
            "x has dtype 'f61', which is neither a dtype nor an axis; did you mean",
        ),
        (
            case("c", made("x", 4, dtype="f16"), made("z", 4, dtype="f32")),
            "x has dtype f16, but axis T is f32",
        ),
        (
            case("c", made("x", 4), made("z", 4), axes=(("VEC", 8),)),
            "add/c: no variant was built for VEC = 8; built are: T = 'f16', VEC = 1; ",
        ),
    ],
)
def test_locates_operations_that_do_not_fit(broken: object, words: str) -> None:
    place = Location(file="tilec.toml", line=7)
    with pytest.raises(CaseError) as caught:
        expand_cases(kernel(broken), add(points=TWO), locate=At(place))
    assert words in str(caught.value)
    assert caught.value.location == place


def test_cases_of_a_kernel_that_was_not_built_have_the_names_they_would_have() -> None:
    cases = (
        case("open", made("x", 4), made("z", 4)),
        case("fixed", made("x", 4, dtype="f16"), made("z", 4, dtype="f16")),
        case("told", made("x", 4, dtype=""), made("z", 4, dtype=""), axes=(("VEC", 4),)),
    )
    table = Kernel(
        name="add",
        source="add.cu",
        function="add",
        language="cuda",
        matrix=Matrix(axes=(("T", ("f16", "f32")), ("VEC", (1, 4)))),
        params=(ParamTable(name="z", dtype="T"), ParamTable(name="x", dtype="T")),
        cases=cases,
    )
    built = info(
        tensor("z", out=True),
        tensor("x"),
        points=tuple({"T": t, "VEC": v} for t in ("f16", "f32") for v in (1, 4)),
    )
    place = Location(file="tilec.toml", line=7)
    unbuilt = unbuilt_cases(table, locate=At(place))
    assert [one.name for one in unbuilt] == [one.name for one in expand_cases(table, built)]
    assert [one.name for one in unbuilt] == [
        "add/open[f16]",
        "add/open[f32]",
        "add/fixed",
        "add/told[f16]",
        "add/told[f32]",
    ]
    assert {(one.kernel, one.location) for one in unbuilt} == {("add", place)}
