"""The expression language over generated expressions: where Python gives a number, so does tilec,
and the same one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model.expr import INT_BOUND, parse

ENV: dict[str, Any] = {"a": 7, "b": -3, "zero": 0, "half": 0.5}


LEAVES = st.one_of(
    st.sampled_from(list(ENV)),
    st.integers(0, 2**33).map(str),
    st.sampled_from(["0.25", "1e3", "True"]),
)


def joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner),
        st.builds("{} {} {}".format, inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner),
        st.builds(
            "({} {} {} {} {})".format,
            inner,
            st.sampled_from(["<", "<=", "=="]),
            inner,
            st.sampled_from([">", "!=", ">="]),
            inner,
        ),
        st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max", "cdiv"]), inner, inner),
        st.builds("(-{})".format, inner),
        st.builds("(not {})".format, inner),
    )


EXPRESSIONS = st.recursive(LEAVES, joined, max_leaves=8)


def cdiv(a: Any, b: Any) -> Any:
    return -(-a // b)


@examples(200)
@given(EXPRESSIONS)
def test_same_value_as_python(text: str) -> None:
    try:
        expected = eval(text, {"__builtins__": {}, "min": min, "max": max, "cdiv": cdiv, **ENV})
    except ZeroDivisionError:
        expected = None
    refusal, got = "", None
    try:
        got = parse(text, names=ENV).evaluate(ENV)
    except ExpressionError as error:
        refusal = error.what
    if refusal:
        assert expected is None or "beyond 64 bits" in refusal
        return
    assert got == expected or (got != got and expected != expected)
    assert type(got) is type(expected)
    assert not isinstance(got, int) or -INT_BOUND < got < INT_BOUND


@examples(200)
@given(
    st.text(max_size=40)
    | st.text("ax.[]()'\"+-*/%<>=!,0123456789 \n\t\\_nbytesshapeandornot", max_size=60)
)
def test_any_text_is_read_or_refused_at_a_column(text: str) -> None:
    refusal = None
    try:
        parse(text)
    except ExpressionError as error:
        refusal = error
    if refusal is not None:
        assert 1 <= refusal.column <= len(text) + 1
        assert refusal.what
