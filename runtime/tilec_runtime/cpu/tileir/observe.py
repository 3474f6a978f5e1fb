"""What the interpreter tells an observer, such as the checker: accesses to memory, assumptions, arithmetic that may not overflow."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Protocol

from tilec_runtime.cpu.tileir.frame import Frame
from tilec_runtime.cpu.tileir.ir import MemoryOrder, MemoryScope, Op
from tilec_runtime.cpu.tileir.values import Array

if TYPE_CHECKING:
    from tilec_runtime.cpu.tileir.memory import Region


class AccessKind(enum.Enum):
    """What an access does."""

    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"  # reads and writes at once


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Access:
    """Elements that a batch of blocks touches by one operation, all in one region. Told before the access takes place.

    Attributes:
        op: the operation. frame: the batch; row i of `offsets` belongs to block `frame.blocks[i]`.
        region: the memory.
        offsets: byte offsets of the elements from the region's start, int64, shape (blocks, *tile). All lie inside the region.
        mask: which elements are touched, of the same shape; None for all.
        size: bytes of an element.
        kind, order, scope: what the access is.
        written: the elements to be written as they lie in memory, broadcastable to `offsets`; None for reads.
    """

    op: Op
    frame: Frame
    region: Region
    offsets: Array
    mask: Array | None
    size: int
    kind: AccessKind
    order: MemoryOrder
    scope: MemoryScope | None
    written: Array | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Outside:
    """Elements that no memory of the launch holds, or that lie outside the tensor where the operation may not go.

    It may go past a tensor's end with a part of a tile. It may not where it promised that, nor with all of a tile.

    Attributes:
        op, frame, kind: as in `Access`.
        rows: for each such element the row of its block in the batch.
        addresses: addresses of the elements.
        index: for a view, the element's place in the tensor, shape (elements, rank); None for pointers.
        shape: for a view, the tensor's extents, shape (elements, rank).
        promised: the operation declared the access in bounds (the memory itself may exist).
        tile: extents along the tensor's dimensions of tiles that lie entirely outside; `index` and `addresses` then tell the first element
            of each. None where it is about single elements.
    """

    op: Op
    frame: Frame
    kind: AccessKind
    rows: Array
    addresses: Array
    index: Array | None
    shape: Array | None
    promised: bool
    tile: tuple[int, ...] | None = None


class Observer(Protocol):
    """Is told what a kernel does, as it happens."""

    def access(self, access: Access) -> None:
        """Elements are about to be touched."""

    def outside(self, outside: Outside) -> bool:
        """Elements lie where the kernel may not go. True: go on, reading zeros and writing nothing there; False: the launch ends.

        Whole tiles outside their tensor end no launch: they are padding when they are read, and not written.
        """

    def assumed(self, op: Op, frame: Frame, broken: Array) -> None:
        """An `assume` does not hold: `broken` says for which blocks, bool of shape (blocks,)."""

    def asserted(self, op: Op, frame: Frame, failed: Array) -> bool:
        """An `assert` failed for the blocks where `failed` is true. True: go on; False: the launch ends."""

    def overflowed(self, op: Op, frame: Frame, wrapped: Array) -> None:
        """An integer operation wrapped that promised not to: `wrapped` says for which blocks."""

    def computed(self, op: Op, frame: Frame) -> None:
        """An operation with floating point results is done; its operands and results can be read from the frame."""
