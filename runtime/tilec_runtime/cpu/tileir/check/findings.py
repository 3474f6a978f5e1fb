"""Findings of the checker: one value per defect, with both sides of a conflict."""

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
    """The kind of a finding; the value is its name in reports."""

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
    """The other access of a conflict: its action, location, and block (x, y, z)."""

    what: str
    location: Loc | None
    block: BlockIndex


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One defect, with the count of elements or blocks that show it.

    Attributes:
        kind: kind of the defect.
        what: the event, in one sentence.
        location: location in the kernel's source; its `caller` is the call site of a helper.
        block: x, y, z of the block; empty if no single block is at fault.
        parameter: parameter with the memory or the value; empty for none.
        index: index of the element, one number per dimension; empty for none.
        other: the other side of a conflict.
        count: number of affected elements, or of blocks if no elements are affected.
        hint: the usual correction.
        kernel: id of the launched variant; empty for a finding about all launches of a case.
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
        """Convert to values for JSON; lines and columns count from 1."""
        row: dict[str, Any] = {
            "kind": self.kind.value,
            "kernel": self.kernel,
            "what": self.what,
            "location": _location(self.location),
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
                "location": _location(other.location),
                "block": list(other.block),
            }
        return row


def _callers(loc: Loc | None) -> list[dict[str, Any] | None]:
    """Return the call sites of helpers, innermost first."""
    callers = []
    while loc is not None and loc.caller is not None:
        loc = loc.caller
        callers.append(_location(loc))
    return callers


def _location(loc: Loc | None) -> dict[str, Any] | None:
    return {"file": loc.file, "line": loc.line, "column": loc.column} if loc else None


_HELD_AS_BITS = Scalar.F8E5M3FNU


class Promises:
    """Describes violated promises of operations by the launcher's parameters.

    Args:
        function: the kernel.
        slots: the launcher's expression for each parameter of the entry point, such as
            `x.shape[1]`.
    """

    def __init__(self, function: Function, slots: Sequence[str]) -> None:
        self._slots = dict(enumerate(slots)) or {
            i: f"parameter {i}" for i in range(len(function.signature.params))
        }
        # Each `assume` returns its operand as a new value, so a parameter may have a chain of them.
        self._origin: dict[int, int] = {}
        for op in function.walk():
            if op.name == "assume":
                source = op.operand("value").index
                self._origin[op.results[0].index] = self._origin.get(source, source)

    def broken(self, op: Op, frame: Frame, row: int) -> tuple[str, str]:
        """Return the parameter that breaks the assumption of `op`, and a message.

        The parameter is empty if the value is not a parameter. `row` is the row of the block.
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
        """Format operands of a scalar operation as `: 2147483647 and 1`; empty for tiles."""
        values = [value for group in op.operands.values() for value in group]
        if any(not isinstance(value.type, Tile) or value.type.shape for value in values):
            return ""
        return ": " + " and ".join(str(_row(frame.get(value), row).item()) for value in values)

    def not_finite(self, op: Op, frame: Frame) -> Array | None:
        """Return the blocks where finite operands gave a NaN or an infinity, or None.

        None means that they are unknown.
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
    """Return per block whether a float tile is finite, or None for other values."""
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
    """Format an element's index without brackets, such as `0, 3`."""
    return ", ".join(map(str, index))
