"""Expressions that are read without the pattern of tokens are ones that it passes; names and
digests are those of their patterns.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilec_runtime.bundle.codec import is_digest, is_name
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model.expr_tree import _plain_words, _scan

PIECES = (
    *"x_019. ()[],+-*/%<>=!&|'\"\t\n",
    "x.shape",
    ".size",
    ".ptr",
    "0x",
    "1_0",
    "1e",
    "and",
    "//",
    "==",
    "<=",
    "**",
    "é",
)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_the_scan_accepts_plain_expressions(text: str) -> None:
    if _plain_words(text):
        _scan(text)


def test_the_scan_accepts_the_texts_of_kernels() -> None:
    for text in (
        "cdiv(x.shape[0], BM) * 2",
        "x.shape == y.shape",
        "x.stride[-1] % 16 == 0",
        "n <= 1024 and m > 0",
        "eps",
        "x.size // 4",
    ):
        assert _plain_words(text), text
    for text in ("1.5", "0x10", "x ** 2", "x = 1", "'f32'", "x & y", "1_000", "01"):
        assert not _plain_words(text), text
    for text in ("x ** 2", "x = 1", "x & y", "01"):
        with pytest.raises(ExpressionError, match="unexpected"):
            _scan(text)


LETTERS = st.text(alphabet=st.one_of(st.sampled_from("aZ_0９²٣-. é"), st.characters()), max_size=8)


@given(LETTERS)
def test_names_are_those_of_the_pattern(text: str) -> None:
    assert is_name(text) == (re.fullmatch(r"[^\W\d]\w*", text) is not None)


@given(st.text(alphabet="0123456789abcdefgF\n", min_size=63, max_size=65))
def test_digests_are_those_of_the_pattern(text: str) -> None:
    assert is_digest(text) == (re.fullmatch(r"[0-9a-f]{64}", text) is not None)
