"""What the checker finds: one value per defect, with both sides of a conflict, ready to be shown or
written as JSON.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.frame import Frame
from tilec_runtime.cpu.tileir.ir import (
    Bounded,
    DivBy,
    Function,
    Loc,
    Op,
    SameElements,
    Scalar,
    Tile,
    Value,
)
from tilec_runtime.cpu.tileir.values import STORAGE, Array

BlockIndex = tuple[int, int, int]


class FindingKind(enum.Enum):
    """Kinds of findings; the value is the name in reports."""

    WRITE_RACE = "write-write race"
    READ_RACE = "read-write race"
    OUT_OF_BOUNDS = "out of bounds"
    UNINITIALIZED = "uninitialized read"
    BROKEN_PROMISE = "broken promise"
    FAILED_ASSERT = "failed assert"
    OVERFLOW = "integer overflow"
    NOT_FINITE = "NaN or Inf"
    ORDER = "order dependence"
    UNDETERMINED = "undetermined elements"
    FAULT = "fault"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """The other access of a conflict: what it did, where in the source, in which block (x, y, z)."""

    what: str
    location: Loc | None
    block: BlockIndex


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One defect; the same at several elements or in several blocks is one finding with a count.

    Attributes:
        kind: what sort of defect.
        what: what happened, in one sentence.
        location: where in the kernel's source; its `caller` is where a helper was called.
        block: x, y, z of the block; empty where no one block is at fault.
        parameter: the parameter whose memory or value it is about; empty where there is none.
        index: the element of the parameter, one number per dimension; empty where there is none.
        other: the other side of a conflict.
        count: elements (or blocks, where there are no elements) that show the same.
        hint: the usual way to mend it.
        kernel: id of the variant whose launch it is about; empty where it is about all launches of
            a case.
    """

    kind: FindingKind
    what: str
    location: Loc | None = None
    block: tuple[int, ...] = ()
    parameter: str = ""
    index: tuple[int, ...] = ()
    other: Side | None = None
    count: int = 1
    hint: str = ""
    kernel: str = ""

    def as_json(self) -> dict[str, Any]:
        """The finding as JSON takes it; lines and columns count from 1."""
        row: dict[str, Any] = {
            "kind": self.kind.value,
            "kernel": self.kernel,
            "what": self.what,
            "location": _place(self.location),
            "callers": _callers(self.location),
            "block": list(self.block),
            "parameter": self.parameter,
            "index": list(self.index),
            "count": self.count,
            "hint": self.hint,
        }
        if self.other:
            other = self.other
            row["other"] = {
                "what": other.what,
                "location": _place(other.location),
                "block": list(other.block),
            }
        return row


def _callers(loc: Loc | None) -> list[dict[str, Any] | None]:
    """Where helpers were called from, innermost first."""
    callers = []
    while loc is not None and loc.caller is not None:
        loc = loc.caller
        callers.append(_place(loc))
    return callers


def _place(loc: Loc | None) -> dict[str, Any] | None:
    return {"file": loc.file, "line": loc.line, "column": loc.column + 1} if loc else None


_HELD_AS_BITS = Scalar.F8E5M3FNU


class Promises:
    """Knows which value is which parameter of the entry point.

    Args:
        function: the kernel.
        slots: per parameter of the entry point what the launcher puts there, such as `x.shape[1]`.
    """

    def __init__(self, function: Function, slots: Sequence[str]) -> None:
        self._slots = dict(enumerate(slots)) or {
            i: f"parameter {i}" for i in range(len(function.signature.params))
        }
        # An assumption gives its operand a new name: the parameter is found through any number of
        # them.
        self._origin: dict[int, int] = {}
        for op in function.walk():
            if op.name == "assume":
                source = op.operand("value").index
                self._origin[op.results[0].index] = self._origin.get(source, source)

    def broken(self, op: Op, frame: Frame, row: int) -> tuple[str, str]:
        """The parameter (or nothing) that breaks the assumption of `op` in the block of a row, and
        the sentence about it.
        """
        value = op.operand("value")
        slot = self._slots.get(self._origin.get(value.index, value.index), "")
        parameter = slot.partition(".")[0]
        held = _row(frame.get(value), row)
        predicate = op.attributes["predicate"]
        subject = slot or "a value"
        match predicate:
            case DivBy(divisor=divisor):
                flat = held.reshape(-1).astype(np.int64)
                off = flat[flat % divisor != 0]
                shown = int(off[0]) if len(off) else int(flat[0])
                if slot.endswith(".ptr"):
                    return (
                        parameter,
                        f"the address of {parameter}, {shown:#x}, is not a multiple of {divisor} bytes, as the kernel assumes",
                    )
                return (
                    parameter,
                    f"{subject} is {shown}, not a multiple of {divisor}, as the kernel assumes",
                )
            case Bounded(lower=lower, upper=upper):
                low, high = int(held.min()), int(held.max())
                shown = low if lower is not None and low < lower else high
                limits = " and ".join(
                    [f"at least {lower}"] * (lower is not None)
                    + [f"at most {upper}"] * (upper is not None)
                )
                return parameter, f"{subject} is {shown}; the kernel assumes that it is {limits}"
            case SameElements(values=groups):
                return (
                    parameter,
                    f"{subject} differs within groups of extents {list(groups)}; the kernel assumes that each holds equal elements",
                )
        return parameter, f"{subject} is not as the kernel assumes ({predicate!r})"

    def operands(self, op: Op, frame: Frame, row: int) -> str:
        """The operands of a scalar operation in a block: `: 2147483647 and 1`; nothing for tiles."""
        values = [value for group in op.operands.values() for value in group]
        if any(not isinstance(value.type, Tile) or value.type.shape for value in values):
            return ""
        return ": " + " and ".join(str(_row(frame.get(value), row).item()) for value in values)

    def not_finite(self, op: Op, frame: Frame) -> Array | None:
        """For which blocks an operation made a NaN or an infinity although all its operands are
        finite; None if it cannot tell.
        """
        results = [finite for value in op.results if (finite := _finite(value, frame)) is not None]
        if not results:
            return None
        given = [
            finite
            for group in op.operands.values()
            for value in group
            if (finite := _finite(value, frame)) is not None
        ]
        bad = np.zeros(frame.size, np.bool_)
        for finite in results:
            bad |= ~finite
        for finite in given:
            bad &= finite
        return bad


def _row(held: Array, row: int) -> Array:
    elements: Array = held[row if held.shape[0] > 1 else 0]
    return elements


def _finite(value: Value, frame: Frame) -> Array | None:
    """For each block whether all elements of a tile of floating point numbers are finite; None for
    other values.
    """
    kind = value.type
    if (
        not isinstance(kind, Tile)
        or not isinstance(kind.element, Scalar)
        or not kind.element.is_float
    ):
        return None
    if kind.element is _HELD_AS_BITS:
        return None
    held = frame.get(value)
    if STORAGE[kind.element].itemsize < 4:
        held = held.astype(np.float32)
    finite: Array = np.isfinite(held).reshape(len(held), -1).all(axis=1)
    return finite


def index_text(index: tuple[int, ...]) -> str:
    """Return an element's index without brackets: `0, 3`."""
    return ", ".join(map(str, index))
