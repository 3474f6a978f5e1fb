"""Selects cases by expressions as pytest's `-k`: `gemm and not f16`."""

from __future__ import annotations

import ast
import dataclasses
import fnmatch
import re
from collections.abc import Iterable, Sequence

from tilec.case.cases import BoundCase
from tilec_runtime.errors import UsageError
from tilec_runtime.model.suggest import did_you_mean

_WORD = re.compile(r"[^\s()]+")
_OPERATORS = ("and", "or", "not")
MOST_NESTED = 50


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Expression:
    """Words joined by `and`, `or` and `not`.

    Attributes:
        text: in lower case.
        tree: of Python, with a name in the place of each word.
    """

    text: str
    tree: ast.expr

    def matches(self, names: Sequence[str]) -> bool:
        """Return whether names, in lower case, satisfy the expression.

        A word matches as a part of a name; a word with `*` or `?` has to match a whole name.
        """
        return self._holds(self.tree, names)

    def _holds(self, node: ast.expr, names: Sequence[str]) -> bool:
        if isinstance(node, ast.BoolOp):
            some = any if isinstance(node.op, ast.Or) else all
            return some(self._holds(part, names) for part in node.values)
        if isinstance(node, ast.UnaryOp):
            return not self._holds(node.operand, names)
        return any(_fits(self._word(node), name) for name in names)

    def _word(self, node: ast.expr) -> str:
        return self.text[node.col_offset : node.end_col_offset]

    @property
    def words(self) -> tuple[str, ...]:
        """The words, in lower case, from left to right."""
        ordered = sorted(
            (node.col_offset, self._word(node))
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Name)
        )
        return tuple(word for _, word in ordered)


def parse_expression(text: str) -> Expression | None:
    """Read `-k`; return None for an empty text, which selects everything.

    Raises:
        UsageError: it is no expression; the message shows the column.
    """
    if not text.strip():
        return None
    start = len(text) - len(text.lstrip())
    # Each word becomes a name of equal length, so that Python's parser reads the operators.
    joined = _WORD.sub(
        lambda match: match[0] if match[0] in _OPERATORS else "_" * len(match[0]), text
    )
    joined = " " * start + re.sub(r"\s", " ", joined[start:])
    if len(re.findall(r"\(|\bnot\b", joined)) > MOST_NESTED:
        raise _refused(text, f"it has more than {MOST_NESTED} brackets and nots", MOST_NESTED)
    try:
        tree = ast.parse(f"({joined})", mode="eval").body
    except SyntaxError as error:
        raise _refused(text, "it is no expression", max((error.offset or 2) - 2, 0)) from error
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and not isinstance(node, ast.BoolOp | ast.UnaryOp | ast.Name):
            why = (
                "`and` or `or` is missing before it"
                if isinstance(node, ast.Call)
                else "a word is missing"
            )
            raise _refused(
                text,
                why,
                (node.args[0] if isinstance(node, ast.Call) and node.args else node).col_offset - 1,
            )
    return Expression(text=f" {text.lower()}", tree=tree)


def _refused(text: str, why: str, at: int) -> UsageError:
    fix = "join words with and, or, not and brackets: -k 'gemm and not (f16 or BM256)'"
    at = min(at, len(text.rstrip()))
    return UsageError(f"-k {text!r}: {why}, at column {at + 1}\n  {text}\n  {' ' * at}^", fix=fix)


def select_cases(
    cases: Iterable[BoundCase], expression: Expression | None
) -> tuple[BoundCase, ...]:
    """Return the cases that match the expression, if any.

    It is over the name (`gemm/4k[f16]`), the name without dtypes (`gemm/4k`), the kernel, and the
    ids of the variants that the case may launch.
    """
    return tuple(case for case in cases if expression is None or expression.matches(_names(case)))


def unknown_words(expression: Expression, cases: Sequence[BoundCase]) -> list[str]:
    """Return the words that match no case, with suggestions: `gem; did you mean 'gemm'`."""
    names = [name for case in cases for name in _names(case)]
    known = {part for case in cases for part in (case.kernel, case.case, case.name, *case.variants)}
    missing = [
        word
        for word in dict.fromkeys(expression.words)
        if not any(_fits(word, name) for name in names)
    ]
    return [f"{word}{did_you_mean(word, known)}" for word in missing]


def _names(case: BoundCase) -> list[str]:
    return [
        name.lower()
        for name in (case.name, f"{case.kernel}/{case.case}", case.kernel, *case.variants)
    ]


def _fits(word: str, name: str) -> bool:
    if "*" not in word and "?" not in word:
        return word in name
    return fnmatch.fnmatchcase(name, word.replace("[", "[[]"))  # brackets are those of names
