"""What the launch core reads of tensors: base types of plain fields, in C where there is a core
(`_core/tensor.c`), else the same here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilec_runtime.device.core import CORE


class PlainLine:
    """A stream."""

    __slots__ = ("handle", "open", "ordinal")

    handle: int
    open: bool
    ordinal: int


class PlainUses:
    """The last uses of memory."""

    __slots__ = ("count", "mark", "reads", "written")

    count: int
    mark: Any
    reads: dict[Any, Any]
    written: Any


class PlainLease:
    """The right to use a tensor."""

    __slots__ = ("held", "parent", "taken")

    held: bool
    parent: Any
    taken: dict[int, Any]


class PlainDescribed:
    """A tensor: the facts of it (TensorFacts), its lease, the uses of its memory, and whether it
    can be used at all.
    """

    __slots__ = ("_facts", "lease", "usable", "uses")

    _facts: Any
    lease: Any
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
