"""What the checker finds: one value per defect, with both sides of a conflict, ready to be shown or written as JSON."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from tilec_runtime.cpu.tileir.ir import Loc

Place = tuple[int, int, int]


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
    block: Place


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
        kernel: id of the variant whose launch it is about; empty where it is about all launches of a case.
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
        found: dict[str, Any] = {
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
            found["other"] = {"what": other.what, "location": _place(other.location), "block": list(other.block)}
        return found


def _callers(loc: Loc | None) -> list[dict[str, Any] | None]:
    """Where helpers were called from, innermost first."""
    found = []
    while loc is not None and loc.caller is not None:
        loc = loc.caller
        found.append(_place(loc))
    return found


def _place(loc: Loc | None) -> dict[str, Any] | None:
    return {"file": loc.file, "line": loc.line, "column": loc.column + 1} if loc else None
