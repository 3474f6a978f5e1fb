"""The compiled core (`_core/`): None where it was not built or TILEC_NATIVE=0 turns it off.

The fields that it reads of tensors lie in base types in C; without a core the same ones are here.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

OFF = os.environ.get("TILEC_NATIVE") == "0"


def _loaded() -> ModuleType | None:
    if OFF:
        return None
    try:
        from tilec_runtime import _core
    except ImportError:
        return None
    # Without the extension, the directory of its sources may be imported in its place.
    return _core if hasattr(_core, "configure") else None


class PlainLine:
    """A stream, and how many uses of memory on it there were and are complete."""

    __slots__ = ("count", "done", "handle", "open", "ordinal")

    count: int
    done: int
    handle: int
    open: bool
    ordinal: int


class PlainUses:
    """The last write of memory (its line and number), and the numbers of the reads since then."""

    __slots__ = ("at", "reads", "written")

    at: int
    reads: dict[Any, int]
    written: Any


class PlainLease:
    """The right to use a tensor."""

    __slots__ = ("held", "parent", "taken")

    held: bool
    parent: Any
    taken: dict[int, Any]


class PlainDescribed:
    """A tensor: its facts (TensorFacts), its lease, the uses of its memory, and whether it can be
    used at all.
    """

    __slots__ = ("facts", "lease", "usable", "uses")

    facts: Any
    lease: Any
    usable: bool
    uses: Any


CORE = _loaded()
if TYPE_CHECKING:
    LineFields = PlainLine
    UsesFields = PlainUses
    LeaseFields = PlainLease
    DescribedFields = PlainDescribed
else:
    LineFields, UsesFields, LeaseFields, DescribedFields = (
        (PlainLine, PlainUses, PlainLease, PlainDescribed)
        if CORE is None
        else (CORE.LineFields, CORE.UsesFields, CORE.LeaseFields, CORE.DescribedFields)
    )
