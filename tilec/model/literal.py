"""Values on command lines: numbers, booleans, and values of an axis."""

from __future__ import annotations

from collections.abc import Iterable

from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.table import axis_shown


def read_number(text: str) -> int | float | bool | None:
    """Return the value of `0x10`, `2.5` or `true`, or None if it is not a number."""
    if text in ("true", "false"):
        return text == "true"
    for read in (lambda v: int(v, 0), float):
        try:
            number: int | float = read(text)
        except ValueError:
            continue
        return number
    return None


def axis_text(value: AxisValue) -> str:
    """Return a value of an axis as text: `64`, `f16`, `true`, `''`."""
    return str(value).lower() if isinstance(value, bool) else axis_shown(value)


def read_axis_value(text: str, built: Iterable[AxisValue]) -> AxisValue | None:
    """Return the built value of an axis with this text, or None."""
    return next((value for value in built if (text or "''") == axis_text(value)), None)
