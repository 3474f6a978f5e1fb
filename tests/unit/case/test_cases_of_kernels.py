"""Cases bound to a built kernel, and the choice among them: names and globs, words of -k, and the
points of a sweep.
"""

from __future__ import annotations

import pytest

from tests.unit.case.conftest import At, case, info, kernel, made, tensor
from tilec.case.cases import BoundCase, expand_cases, unbuilt_cases
from tilec.case.selection import MOST_NESTED, parse_expression, select_cases, unknown_words
from tilec.case.sweeps import MOST, parse_sweep, settings_at
from tilec.manifest.types import Kernel, Matrix, ParamTable
from tilec_runtime.errors import Location, UsageError

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
    (bound,) = expand_cases(kernel(broken), add(points=TWO), locate=At(place))
    assert words in str(bound.error)
    assert (bound.error.location, bound.location) == (place, place)


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


JOINED = "it is no expression"


CASES = (
    BoundCase(
        name="gemm/4k[f16]",
        kernel="gemm",
        case="4k",
        variants=("gemm-f16-BM128", "gemm-f16-BM128-a16"),
    ),
    BoundCase(name="gemm/4k[f32]", kernel="gemm", case="4k", variants=("gemm-f32-BM64",)),
    BoundCase(name="gemm/odd", kernel="gemm", case="odd", variants=("gemm-f16-BM64",)),
    BoundCase(name="softmax/rows", kernel="softmax", case="rows", variants=("softmax-f32",)),
)


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("", "0123"),
        ("gemm", "012"),
        ("GEMM", "012"),
        ("gemm and not 4k", "2"),
        ("softmax or odd", "23"),
        ("odd or gemm and 4k and f32", "12"),
        ("(odd or gemm) and f32", "1"),
        ("not not gemm", "012"),
        ("not (gemm or softmax)", ""),
        ("bm64", "12"),
        ("gemm/4k[f16]", "0"),
        ("gemm/*", "012"),
        ("4k", "01"),
        ("gemm/4?", "01"),
        ("*[f16]", "0"),
        ("*bm64", "12"),
    ],
)
def test_expressions(text: str, taken: str) -> None:
    assert select_cases(CASES, parse_expression(text)) == tuple(CASES[int(i)] for i in taken)


@pytest.mark.parametrize(
    ("text", "why", "column"),
    [
        ("gemm softmax", JOINED, None),
        ("(gemm", JOINED, None),
        ("gemm)", JOINED, None),
        ("and gemm", JOINED, 1),
        ("gemm or ", JOINED, None),
        ("gemm (f16)", "`and` or `or` is missing before it", 7),
        ("()", "a word is missing", None),
        (
            "(" * 60 + "a" + ")" * 60,
            f"it has more than {MOST_NESTED} brackets and nots",
            MOST_NESTED + 1,
        ),
        ("not " * 5000 + "a", f"it has more than {MOST_NESTED} brackets and nots", MOST_NESTED + 1),
    ],
)
def test_refuses_expressions_at_their_column(text: str, why: str, column: int | None) -> None:
    """Where it is, is Python's to say in most cases."""
    with pytest.raises(UsageError) as caught:
        parse_expression(text)
    head, line, mark = caught.value.what.splitlines()
    assert head.startswith(f"-k {text!r}: {why}, at column ")
    at = int(head.rpartition(" ")[2])
    assert at == (column or at)
    assert (line, mark) == (f"  {text}", " " * (at + 1) + "^")


def test_words_that_fit_nothing() -> None:
    expression = parse_expression("gemmm and not (zzz or f16)")
    assert expression is not None
    assert unknown_words(expression, CASES) == ["gemmm; did you mean 'gemm'", "zzz"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("n", "'--sweep n' is not NAME=VALUES"),
        ("n=", "is not NAME=VALUES"),
        ("2n=1,2", "is not NAME=VALUES"),
        ("n=5", "--sweep n=5 has 1 point: a sweep has 2 to 64"),
        ("n=1..64+", "'1..64+' is no range"),
        ("n=a..b", "is no range"),
        ("n=64..1", "goes nowhere"),
        ("n=0..8", "goes nowhere"),
        ("n=1..8*1", "goes nowhere"),
        ("n=1..8+0", "goes nowhere"),
        ("n=1..1000+1", "has more than 64 points"),
        ("n=1,,2", "takes numbers or words"),
        ("n=1,1", "a value stands there twice"),
        ("x=[1],[2]", "takes numbers or words"),
        (f"n={','.join(map(str, range(MOST + 1)))}", "has more than 64 points"),
    ],
)
def test_refuses_sweeps_that_are_none(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_sweep(text)
    assert said in caught.value.what


def test_settings_that_use_the_name_are_worked_out() -> None:
    sweep = parse_sweep("n=8,16")
    settings = ("x=f16[n, 2 * n]:normal:7", "y=[max(1, cdiv(n, 3)), 5]", "z=[7]", "alpha=n")
    assert settings_at(settings, sweep, "16") == (
        "x=f16[16,32]:normal:7",
        "y=[6,5]",
        "z=[7]",
        "alpha=16",
    )
    assert settings_at(("BM=T",), parse_sweep("T=f16,f32"), "f16") == ("BM=f16",)
