"""Collect problems of a manifest, and locate them after everything was read."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

from tilec.manifest.locate import Locator, Path
from tilec.model.cpp import dtype_of
from tilec_runtime.errors import Diagnostic, ExpressionError, ManifestError
from tilec_runtime.model.dtype import DTYPES, short_name
from tilec_runtime.model.expr import parse
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.suggest import did_you_mean

# Beside the names of C++.
_USUAL_NAMES = {
    "single": "f32",
    "fp32": "f32",
    "fp64": "f64",
    "fp16": "f16",
    "bfloat": "bf16",
    "bool_": "bool",
    "boolean": "bool",
}


def dtype_meant(text: object) -> str:
    """Return tilec's name of the dtype that a name of C, NumPy, torch or Triton means, or the text."""
    name = str(text).rpartition(".")[2]
    bare = name.removesuffix("_t")
    return dtype_of(name) or dtype_of(bare) or _USUAL_NAMES.get(bare, short_name(bare))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One problem of a manifest.

    Attributes:
        path: key path.
        what: the message.
        hint: a hint at the fix.
        at_key: whether it is located at the key instead of the value.
        index: character of a text value, if known.
    """

    path: Path
    what: str
    hint: str = ""
    at_key: bool = False
    index: int | None = None


class Problems:
    """Collects the problems of every check."""

    def __init__(self) -> None:
        self.collected: list[Problem] = []

    def add(
        self,
        path: Path,
        what: str,
        *,
        hint: str = "",
        at_key: bool = False,
        index: int | None = None,
    ) -> None:
        """Record a problem; `error` reports all of them after everything was read."""
        self.collected.append(Problem(path=path, what=what, hint=hint, at_key=at_key, index=index))

    def unknown(
        self,
        path: Path,
        noun: str,
        value: str,
        known: tuple[str, ...] | list[str],
        *,
        at_key: bool = False,
        hint: str = "",
    ) -> None:
        """Record an unknown word with the nearest known one, or all of them."""
        meant = dtype_meant(value)
        near = did_you_mean(meant if meant in DTYPES and meant in known else value, known)
        listed = f"; known are {', '.join(known)}" if known and len(known) <= 24 else ""
        self.add(path, f"unknown {noun} {value!r}{near or listed}", at_key=at_key, hint=hint)

    def expression(self, path: Path, error: ExpressionError) -> None:
        """Record an expression's error at its own character."""
        self.add(path, error.what, index=max(error.column - 1, 0))

    def error(self, locator: Locator, fix: str = "") -> ManifestError:
        """Return all problems as an error, in the order of the text."""
        located = [
            locator.problem(
                one.path, one.what, value=not one.at_key, index=one.index, hint=one.hint
            )
            for one in dict.fromkeys(self.collected)
        ]
        return ManifestError(
            tuple(sorted(located, key=lambda problem: order_of(problem, locator.file))), fix=fix
        )


def shown_int(value: int) -> str:
    """Return an integer for a message; Python refuses to convert huge ones."""
    return str(value) if value.bit_length() < 200 else f"an integer of {value.bit_length()} bits"


def shown(value: Any) -> str:
    """Return a TOML value for a message: text and numbers by value, others by kind."""
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
    """Return the sort key of a problem: those in the manifest by location, then other files."""
    at = problem.location
    return (False, at.line, at.column) if at and at.file == manifest else (True, 0, 0)


Axes = dict[str, tuple[AxisValue, ...]]
Typed = tuple[type, AxisValue]


def typed(value: AxisValue) -> Typed:
    """Return a value with its type: 1, 1.0 and true are different values of an axis."""
    return (type(value), value)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Scope:
    """Path, axes and problems of one kernel, for checks of names.

    Attributes:
        path: key path of the kernel.
        axes: axes with their values, those of included points too.
        problems: collects problems.
        let: names of the derived axes.
        open: whether the source may add axes; planning then checks unknown names.
    """

    path: Path
    axes: Axes
    problems: Problems
    let: tuple[str, ...] = ()
    open: bool = False

    @functools.cached_property
    def typed_values(self) -> dict[str, frozenset[Typed]]:
        """Axis values with their types: long axes with many points take linear time."""
        return {name: frozenset(map(typed, items)) for name, items in self.axes.items()}

    def axis(self, name: str, path: Path, *, hint: str = "") -> bool:
        """Return whether an axis exists; report it if not, with the hint."""
        if name in self.axes or self.open:
            return True
        if self.axes:
            self.problems.unknown(path, "axis", name, tuple(self.axes), at_key=True, hint=hint)
        else:
            what = f"unknown axis {name!r}: the kernel has no matrix"
            self.problems.add(path, what, at_key=True, hint=hint)
        return False

    def value(self, name: str, value: AxisValue) -> AxisValue:
        """Return an axis value; on an axis of dtypes, the short name of a dtype."""
        short = short_name(value) if isinstance(value, str) else value
        return short if any(item in DTYPES for item in self.axes.get(name, ())) else value

    def point(
        self, values: Iterable[tuple[str, AxisValue]], path: Path
    ) -> tuple[tuple[str, AxisValue], ...]:
        """Return axis values; report those that do not exist."""
        point = tuple((name, self.value(name, value)) for name, value in values)
        for name, value in point:
            inner = (*path, name)
            hint = f"a constant of the kernel is an axis once it has values: matrix.{name} = […]"
            if (
                self.axis(name, inner, hint="" if name in self.let else hint)
                and name in self.axes
                and typed(value) not in self.typed_values[name]
            ):
                known = ", ".join(map(shown, self.axes[name][:12]))
                self.problems.add(
                    inner, f"{shown(value)} is not a value of axis {name}: it has {known}"
                )
        return point

    def dtype(self, name: str, path: Path) -> None:
        """Check a dtype, or the name of an axis that holds dtypes."""
        if name in DTYPES:
            return
        if name not in self.axes:
            self.problems.unknown(path, "dtype or axis", name, (*DTYPES, *self.axes))
        elif not any(
            value in DTYPES for value in self.axes[name]
        ):  # if only some are dtypes, the check of the axis reports the others
            meant = dtype_meant(self.axes[name][0])
            self.problems.add(
                path,
                f"axis {name} holds no dtypes but {', '.join(map(shown, self.axes[name][:4]))}"
                + (f"; did you mean {meant!r}" if meant in DTYPES else ""),
            )

    def expression(self, text: str, names: set[str] | Axes, path: Path) -> None:
        """Report an unknown name or a syntax error of an expression."""
        try:
            parse(text, names=None if self.open else names)
        except ExpressionError as error:
            self.problems.expression(path, error)
