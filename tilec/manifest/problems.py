"""Collects what is wrong with a manifest, and turns it into located diagnostics once everything has
been read.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tilec.manifest.locate import Locator
from tilec.manifest.scan import Path
from tilec_runtime.errors import Diagnostic, ExpressionError, ManifestError
from tilec_runtime.model.suggest import did_you_mean


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One problem: where (a key path, and whether its key or its value is meant, or which character
    of a text value), and what.
    """

    path: Path
    what: str
    hint: str = ""
    at_key: bool = False
    index: int | None = None


class Problems:
    """The sink that every check reports to."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(
        self,
        path: Path,
        what: str,
        *,
        hint: str = "",
        at_key: bool = False,
        index: int | None = None,
    ) -> None:
        """Note a problem; nothing is raised before all have been found."""
        self.found.append(Problem(path=path, what=what, hint=hint, at_key=at_key, index=index))

    def unknown(
        self,
        path: Path,
        what: str,
        value: str,
        known: tuple[str, ...] | list[str],
        *,
        at_key: bool = False,
    ) -> None:
        """Note a word that is not among those known: names the nearest, or all of them."""
        near = did_you_mean(value, known)
        listed = f"; known are {', '.join(known)}" if known and len(known) <= 24 else ""
        self.add(path, f"unknown {what} {value!r}{near or listed}", at_key=at_key)

    def expression(self, path: Path, error: ExpressionError) -> None:
        """Note an expression's error at its own character."""
        self.add(path, error.what, index=max(error.column - 1, 0))

    def error(self, locator: Locator, fix: str = "") -> ManifestError:
        """All problems, in the order of the text."""
        located = [
            locator.problem(
                one.path, one.what, value=not one.at_key, index=one.index, hint=one.hint
            )
            for one in dict.fromkeys(self.found)
        ]
        return ManifestError(
            tuple(sorted(located, key=lambda problem: order_of(problem, locator.file))), fix=fix
        )


def shown_int(value: int) -> str:
    """An integer for a message; huge ones by size, since Python refuses to write them out."""
    return str(value) if value.bit_length() < 200 else f"an integer of {value.bit_length()} bits"


def shown(value: Any) -> str:
    """A TOML value in a message: text and numbers as they are, the rest by kind."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return repr(value) if len(value) <= 60 else f"{value[:57]!r}…"
    if isinstance(value, int):
        return shown_int(value)
    if isinstance(value, float):
        return str(value)
    return (
        "a list"
        if isinstance(value, list)
        else "a table"
        if isinstance(value, dict)
        else f"the date {value}"
    )


def order_of(problem: Diagnostic, manifest: str) -> tuple[bool, int, int]:
    """Sort key of a problem: those of the manifest, a file name, in its order; then those of other
    files.
    """
    at = problem.location
    return (False, at.line, at.column) if at and at.file == manifest else (True, 0, 0)
