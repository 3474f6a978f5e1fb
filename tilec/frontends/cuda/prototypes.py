"""Holds what CUDA C++ declares of linked Python functions against what these are: a linker takes one for the other without a word."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilec.frontends.tools.cpp import link_errors
from tilec.frontends.tools.cpp.tokens import Token, lex
from tilec_runtime.errors import Diagnostic, Location
from tilec_runtime.model.cpp import dtype_of
from tilec_runtime.model.link import LinkKind, Prototype

if TYPE_CHECKING:
    from tilec.frontends.cuda.program import Asked

_STARTS = {";", "{", "}"}
_DECORATION = {
    "extern",
    "__device__",
    "__host__",
    "inline",
    "static",
    "__forceinline__",
    "__noinline__",
    "const",
    "__restrict__",
    "restrict",
}


def check(asked: Asked, prototypes: Sequence[Prototype]) -> None:
    """Compare every declaration in the kernel's source, the project's headers that it includes, and linked sources.

    A type that the text alone does not tell (a typedef) is not judged.

    Raises:
        CompileError: one differs; with both places.
    """
    linked = [entry.path for entry in asked.options.link if entry.kind is LinkKind.CUDA]
    for file in dict.fromkeys((*link_errors.sources(asked), *linked)):
        text = Path(asked.job.spec.source.root, file).read_text(encoding="utf-8", errors="replace")
        wanted = [prototype for prototype in prototypes if prototype.name in text]
        tokens = lex(text).tokens if wanted else ()
        for prototype in wanted:
            for token, result, params in _declarations(tokens, prototype.name):
                if _differ(prototype.result, result) or len(params) != len(prototype.params) or any(map(_differ, prototype.params, params)):
                    place = Location(file=file, line=token.line, column=token.column)
                    raise _error(asked, prototype, place, text, f"{result} {prototype.name}({', '.join(params)})")


def _error(asked: Asked, prototype: Prototype, place: Location, text: str, declared: str) -> Exception:
    what = f"{declared} is declared, and the function of Python at {prototype.location} is {prototype}"
    fix = f"declare {prototype}"
    excerpt = text.split("\n")[place.line - 1]
    note = Diagnostic(message=f"{prototype.name} is defined here", location=prototype.location, severity="note")
    return asked.error(what, diagnostics=(Diagnostic(message=what, location=place, excerpt=excerpt, hint=fix), note), fix=fix)


def _declarations(tokens: Sequence[Token], name: str) -> Iterator[tuple[Token, str, list[str]]]:
    """(name, result, parameters) of every declaration of a function."""
    for index, token in enumerate(tokens):
        if token.text != name or index + 1 >= len(tokens) or tokens[index + 1].text != "(":
            continue
        before = list(itertools.takewhile(lambda t: t.text not in _STARTS, reversed(tokens[:index])))[::-1]
        close = _close(tokens, index + 1)
        # A call is no declaration, and stands behind no __device__.
        if close and any(t.text == "__device__" for t in before):
            result = _spelled([t for t in before if t.kind != "string"])
            params = [_spelled(part) for part in _split(tokens[index + 2 : close])]
            yield token, result, [] if params == ["void"] else params


def _close(tokens: Sequence[Token], start: int) -> int:
    depth = 0
    for index in range(start, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[index].text, 0)
        if depth == 0:
            return index
    return 0


def _split(tokens: Sequence[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]] if tokens else []
    for token in tokens:
        if token.text == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _spelled(tokens: Sequence[Token]) -> str:
    """A type as its words; the name of a parameter behind it, and its default, are left out."""
    words = [token.text for token in itertools.takewhile(lambda t: t.text != "=", tokens) if token.text not in _DECORATION]
    if len(words) > 1 and (words[-2] in ("*", "&") or dtype_of(" ".join(words[:-1]))) and not dtype_of(" ".join(words)):
        words = words[:-1] if words[-1] not in ("*", "&") else words
    return " ".join(words).replace(" *", "*")


def _differ(own: str, declared: str) -> bool:
    """Whether two types are of other dtypes; where a name is not known, they may be the same."""
    known = declared.rstrip("*")
    dtype = "void" if known == "void" else dtype_of(known)
    mine = own.removeprefix("const ").rstrip("*")
    return bool(dtype) and (own.endswith("*") != declared.endswith("*") or (dtype_of(mine) or mine) != dtype)
