"""Problems of a manifest: collected by every check, located once everything was read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tilec.manifest.locate import Locator, Path
from tilec_runtime.errors import Diagnostic, ExpressionError, ManifestError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.expr import parse
from tilec_runtime.model.kernel import AxisValue
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


Axes = dict[str, tuple[AxisValue, ...]]
Mark = tuple[type, AxisValue]


def mark(value: AxisValue) -> Mark:
    """A value with its type: 1, 1.0 and true are different values of an axis."""
    return (type(value), value)


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scope:
    """What the checks of one kernel share: where it stands, its axes with the values that included
    points add, and the sink.
    """

    path: Path
    axes: Axes
    problems: Problems
    marks: dict[str, frozenset[Mark]] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Index the values, so that long axes with long lists of points stay linear."""
        object.__setattr__(
            self, "marks", {name: frozenset(map(mark, items)) for name, items in self.axes.items()}
        )

    def axis(self, name: str, path: Path) -> bool:
        """Whether there is such an axis; reported where not."""
        if name in self.axes:
            return True
        if self.axes:
            self.problems.unknown(path, "axis", name, tuple(self.axes), at_key=True)
        else:
            self.problems.add(path, f"unknown axis {name!r}: the kernel has no matrix", at_key=True)
        return False

    def point(self, found: Mapping[str, Any], path: Path) -> tuple[tuple[str, AxisValue], ...]:
        """Axis values that must exist."""
        for name, value in found.items():
            inner = (*path, name)
            if self.axis(name, inner) and mark(value) not in self.marks[name]:
                known = ", ".join(map(shown, self.axes[name][:12]))
                self.problems.add(
                    inner, f"{shown(value)} is not a value of axis {name}: it has {known}"
                )
        return tuple(found.items())

    def dtype(self, name: str, path: Path) -> None:
        """Check a dtype or the name of an axis that holds dtypes."""
        if name in DTYPES:
            return
        if name not in self.axes:
            self.problems.unknown(path, "dtype or axis", name, (*DTYPES, *self.axes))
        elif not any(
            value in DTYPES for value in self.axes[name]
        ):  # where some are, the axis reports the others
            self.problems.add(
                path,
                f"axis {name} holds no dtypes but {', '.join(map(shown, self.axes[name][:4]))}",
            )

    def expression(self, text: str, names: set[str] | Axes, path: Path) -> None:
        """Check an expression whose names are all known."""
        try:
            parse(text, names=names)
        except ExpressionError as error:
            self.problems.expression(path, error)
