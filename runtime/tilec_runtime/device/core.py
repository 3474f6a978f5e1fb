"""The compiled launch core (`_core/`): where it was built, and unless TILEC_NATIVE=0 turns it off."""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any


def _loaded() -> ModuleType | None:
    if os.environ.get("TILEC_NATIVE") == "0":
        return None
    try:
        from tilec_runtime import _core
    except ImportError:
        return None
    # Without a built extension, the import finds the directory of the C sources.
    return _core if hasattr(_core, "configure") else None


def absence() -> str:
    """Return why launches take Python's path; empty where the core makes them."""
    if CORE is not None:
        return ""
    if os.environ.get("TILEC_NATIVE") == "0":
        return "TILEC_NATIVE=0 turns the launch core off"
    return "the launch core was not built"


# The launch core; None where launches take Python's path.
CORE = _loaded()


class PlainLine:
    """A stream, and how many uses of memory on it there were and are complete."""

    __slots__ = ("count", "done", "handle", "open", "ordinal", "own")

    count: int
    done: int
    handle: int
    open: bool
    ordinal: int
    own: bool


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
    """A tensor: its facts (TensorFacts), its lease, the uses of its memory, whether it can be used
    at all, and whether it is one owner among several.
    """

    __slots__ = ("facts", "lease", "shared", "usable", "uses")

    facts: Any
    lease: Any
    shared: bool
    usable: bool
    uses: Any


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
