"""Which cases a run takes: globs over names, and expressions such as `gemm and not (f16 or BM256)`, as pytest's `-k`."""

from __future__ import annotations

import dataclasses
import enum
import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence

from tilec.case.cases import BoundCase
from tilec_runtime.errors import UsageError
from tilec_runtime.model.suggest import did_you_mean

_TOKEN = re.compile(r"([()]|[^\s()]+)")
_OPERATORS = ("and", "or", "not")
MOST_NESTED = 50


class _Rule(enum.Enum):
    WORD = "a word"
    AND = "and"
    OR = "or"
    NOT = "not"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Expression:
    """A word, or what joins others."""

    rule: _Rule
    word: str = ""
    parts: tuple[Expression, ...] = ()

    def matches(self, names: Sequence[str]) -> bool:
        """Whether names, in lower case, satisfy it: a word has to be part of one of them, a word with `*` or `?` to fit a whole one."""
        match self.rule:
            case _Rule.WORD:
                return any(_fits(self.word, name) for name in names)
            case _Rule.NOT:
                return not self.parts[0].matches(names)
            case _Rule.AND:
                return all(part.matches(names) for part in self.parts)
            case _Rule.OR:
                return any(part.matches(names) for part in self.parts)

    @property
    def words(self) -> tuple[str, ...]:
        """Every word in it, in lower case."""
        return (self.word,) if self.rule is _Rule.WORD else tuple(word for part in self.parts for word in part.words)


def parse_expression(text: str) -> Expression | None:
    """Read `-k`; None for an empty text, which takes everything.

    Raises:
        UsageError: it is no expression; the message shows where.
    """
    return _Parser(text).whole() if text.strip() else None


def select_cases(cases: Iterable[BoundCase], globs: Sequence[str], expression: Expression | None = None) -> tuple[BoundCase, ...]:
    """The cases that both take; all for no glob and no expression.

    Args:
        cases: to choose from.
        globs: of which one matches the name (`gemm/4k[f16]`), the name without dtypes (`gemm/4k`) or the kernel.
        expression: over these names, and those of the variants that the case may launch.
    """
    taken = (case for case in cases if not globs or any(_matches(case, glob) for glob in globs))
    return tuple(case for case in taken if expression is None or expression.matches(_names(case)))


def unknown_words(expression: Expression, cases: Sequence[BoundCase]) -> list[str]:
    """The words of an expression that fit no case at all, each with what may have been meant: `gem; did you mean 'gemm'`."""
    names = [name for case in cases for name in _names(case)]
    known = {part for case in cases for part in (case.kernel, case.case, case.name, *case.variants)}
    missing = [word for word in dict.fromkeys(expression.words) if not any(_fits(word, name) for name in names)]
    return [f"{word}{did_you_mean(word, known)}" for word in missing]


def _matches(case: BoundCase, glob: str) -> bool:
    # Brackets of a name are also glob syntax: an exact name always matches.
    names = (case.name, f"{case.kernel}/{case.case}", case.kernel)
    return glob in names or any(fnmatch.fnmatchcase(name, glob) for name in names)


def _names(case: BoundCase) -> list[str]:
    return [name.lower() for name in (case.name, f"{case.kernel}/{case.case}", case.kernel, *case.variants)]


def _fits(word: str, name: str) -> bool:
    if "*" not in word and "?" not in word:
        return word in name
    return fnmatch.fnmatchcase(name, word.replace("[", "[[]"))  # brackets are those of names


class _Parser:
    """Reads `or` of `and` of `not` of words and brackets."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [(found[1], found.start(1)) for found in _TOKEN.finditer(text)]
        self._place = 0
        self._depth = 0

    def whole(self) -> Expression:
        found = self._any()
        if self._place < len(self._tokens):
            closing = self._tokens[self._place][0] == ")"
            raise self._refuse("there is no bracket to close" if closing else "`and` or `or` is missing before it")
        return found

    def _any(self) -> Expression:
        return self._joined(_Rule.OR, lambda: self._joined(_Rule.AND, self._not))

    def _joined(self, rule: _Rule, part: Callable[[], Expression]) -> Expression:
        parts = [part()]
        while self._takes(rule.value):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Expression(rule=rule, parts=tuple(parts))

    def _not(self) -> Expression:
        if not self._takes("not"):
            return self._one()
        self._enter()
        found = Expression(rule=_Rule.NOT, parts=(self._not(),))
        self._depth -= 1
        return found

    def _one(self) -> Expression:
        if self._takes("("):
            self._enter()
            found = self._any()
            if not self._takes(")"):
                raise self._refuse("a bracket is not closed")
            self._depth -= 1
            return found
        if self._place == len(self._tokens) or self._tokens[self._place][0] in (*_OPERATORS, "(", ")"):
            raise self._refuse("a word is missing")
        word = self._tokens[self._place][0]
        self._place += 1
        return Expression(rule=_Rule.WORD, word=word.lower())

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise self._refuse(f"it is nested more than {MOST_NESTED} deep")

    def _takes(self, token: str) -> bool:
        taken = self._place < len(self._tokens) and self._tokens[self._place][0] == token
        self._place += taken
        return taken

    def _refuse(self, why: str) -> UsageError:
        at = self._tokens[self._place][1] if self._place < len(self._tokens) else len(self._text.rstrip())
        fix = "join words with and, or, not and brackets: -k 'gemm and not (f16 or BM256)'"
        return UsageError(f"-k {self._text!r}: {why}, at column {at + 1}\n  {self._text}\n  {' ' * at}^", fix=fix)
