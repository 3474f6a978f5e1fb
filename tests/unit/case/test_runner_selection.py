"""Which cases globs and expressions take."""

from __future__ import annotations

import pytest

from tilec.case.cases import BoundCase
from tilec.case.selection import MOST_NESTED, parse_expression, select_cases, unknown_words
from tilec_runtime.errors import UsageError

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
    assert select_cases(CASES, (), parse_expression(text)) == tuple(CASES[int(i)] for i in taken)


def test_globs_and_an_expression_both_hold() -> None:
    assert select_cases(CASES, ("gemm/4k*", "softmax")) == (CASES[0], CASES[1], CASES[3])
    assert select_cases(CASES, ("gemm/4k*", "softmax"), parse_expression("f32")) == (
        CASES[1],
        CASES[3],
    )


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
