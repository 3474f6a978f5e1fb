"""What the checks of one kernel share: its axes, and looks at names that have to be there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tilec.manifest.problems import Problems, shown
from tilec.manifest.scan import Path
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.expr import parse
from tilec_runtime.model.kernel import AxisValue

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
