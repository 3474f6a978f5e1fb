"""A launch, its batches of blocks and what each value holds for them, and what an observer is told
while they run.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np

from tilec_runtime.cpu.tileir.ir import Block, MemoryOrder, MemoryScope, Op, Value
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.values import Array, Rows, take

Grid = tuple[int, int, int]
# The kernel of a launch, and the number of an operation in it.
Site = tuple[str, int]
# Rotations of the pattern: over all of them an element is NaN, the largest and the lowest number.
ROTATIONS = 3
# Behind these, fills with one value alone: with a pattern, "all elements are …" is never true.
TURNS = ROTATIONS + 2


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Undetermined:
    """What a launch finds in undetermined elements.

    Attributes:
        turn: below `ROTATIONS`, how far the pattern is rotated; then the largest number alone, and
            1 alone; None for zeros.
        site: the only operation that gives the pattern, the others give zeros; None for all.
        blocks: blocks with a number below this get the pattern, the others zeros; None for all.
        reached: called when undetermined elements are read, with the operation, its batch and an
            address of the array; None to call nothing.
    """

    turn: int | None = 0
    site: Site | None = None
    blocks: int | None = None
    reached: Callable[[Op, Frame, int], None] | None = None


GARBAGE = Undetermined()


class AccessKind(enum.Enum):
    """What an access does."""

    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"  # reads and writes at once


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Access:
    """Elements that a batch of blocks touches by one operation, all in one region. Told before the
    access takes place.

    Attributes:
        op: the operation.
        frame: the batch; row i of `offsets` belongs to block `frame.blocks[i]`.
        region: the memory.
        offsets: byte offsets of the elements from the region's start, int64, shape (blocks, *tile).
            All lie inside the region.
        mask: which elements are touched, of the same shape; None for all.
        size: bytes of an element.
        kind, order, scope: what the access is.
        written: the elements to be written as they lie in memory, broadcastable to `offsets`; None
            for reads.
    """

    op: Op
    frame: Frame
    region: MemoryRegion
    offsets: Array
    mask: Array | None
    size: int
    kind: AccessKind
    order: MemoryOrder
    scope: MemoryScope | None
    written: Array | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Outside:
    """Elements that no memory of the launch holds, or that lie outside the tensor where the
    operation may not go.

    It may go past a tensor's end with a part of a tile. It may not where it promised that, nor with
    all of a tile.

    Attributes:
        op, frame, kind: as in `Access`.
        rows: for each such element the row of its block in the batch.
        addresses: addresses of the elements.
        index: for a view, the element's place in the tensor, shape (elements, rank); None for
            pointers.
        shape: for a view, the tensor's extents, shape (elements, rank).
        promised: the operation declared the access in bounds (the memory itself may exist).
        tile: extents along the tensor's dimensions of tiles that lie entirely outside; `index` and
            `addresses` then tell the first element of each. None where it is about single elements.
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
        """Elements lie where the kernel may not go. True: go on, reading zeros and writing nothing
        there; False: the launch ends.

        Whole tiles outside their tensor end no launch: they are padding when they are read, and not
        written.
        """

    def assumed(self, op: Op, frame: Frame, broken: Array) -> None:
        """An `assume` does not hold: `broken` says for which blocks, bool of shape (blocks,)."""

    def asserted(self, op: Op, frame: Frame, failed: Array) -> bool:
        """An `assert` failed for the blocks where `failed` is true. True: go on; False: the launch
        ends.
        """

    def overflowed(self, op: Op, frame: Frame, wrapped: Array) -> None:
        """An integer operation wrapped that promised not to: `wrapped` says for which blocks."""

    def computed(self, op: Op, frame: Frame) -> None:
        """An operation with floating point results is done; its operands and results can be read
        from the frame.
        """


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Launch:
    """What all blocks of a launch share.

    Attributes:
        kernel: what messages call it: a variant's id, or the entry's symbol.
        grid: blocks along x, y and z.
        memory: all that the kernel may touch.
        observer: told of every access and assumption; None for none, which is faster.
        output: takes what the kernel prints.
        globals: address of each variable of the module.
        undetermined: what elements hold whose value Tile IR leaves open.
        steps: most passes of loops of one batch of blocks.
        cancelled: asked at each pass of a loop whether to stop.
    """

    kernel: str
    grid: Grid
    memory: Memory
    observer: Observer | None
    output: Callable[[str], None]
    globals: Mapping[str, int]
    undetermined: Undetermined = GARBAGE
    steps: int = 10_000_000
    cancelled: Callable[[], bool] | None = None


@dataclasses.dataclass(slots=True, eq=False)
class Batch:
    """What a batch of blocks has used up.

    Attributes:
        turns: whether loops that wait for other blocks hand on to them.
        passes: of loops so far.
        printed: pieces of text with the number of the block that each is from.
        regions: memory of these blocks' own.
        addresses: each block's by the number of the operation that asked for it.
    """

    turns: bool = False
    passes: int = 0
    printed: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    regions: list[MemoryRegion] = dataclasses.field(default_factory=list)
    addresses: dict[int, dict[int, int]] = dataclasses.field(default_factory=dict)


class Frame:
    """Values of a batch. A frame for some of the blocks finds what it lacks in the frame that it
    was narrowed from.

    Attributes:
        launch: what all blocks share.
        blocks: numbers of the blocks of this batch.
        batch: what these blocks have used up and printed.
        values: what is held here, by the values' numbers; what only the frame before has is not in
            it.
    """

    __slots__ = ("_parent", "_rows", "batch", "blocks", "launch", "values")

    def __init__(
        self,
        launch: Launch,
        blocks: Array,
        parent: Frame | None = None,
        rows: Rows | None = None,
        *,
        turns: bool = False,
    ) -> None:
        self.launch = launch
        self.blocks = blocks
        self.batch: Batch = Batch(turns) if parent is None else parent.batch
        self.values: dict[int, Any] = {}
        self._parent = parent
        self._rows = rows

    @property
    def size(self) -> int:
        """How many blocks there are."""
        return len(self.blocks)

    def get(self, value: Value) -> Any:
        """What a value holds: for tiles an array of shape (blocks or 1, *tile)."""
        try:
            return self.values[value.index]
        except KeyError:
            assert self._parent is not None
            assert self._rows is not None
            held = self.values[value.index] = take(self._parent.get(value), self._rows)
            return held

    def set(self, value: Value, held: Any) -> None:
        """Define a value."""
        self.values[value.index] = held

    def forget(self, indices: tuple[int, ...]) -> None:
        """Free values that nothing needs any more."""
        for index in indices:
            self.values.pop(index, None)

    def narrow(self, rows: Rows) -> Frame:
        """A frame for some of the blocks; a row may come more than once."""
        return Frame(self.launch, self.blocks[rows], self, rows)

    def place(self, row: int) -> Grid:
        """The place in the grid of a row of the batch."""
        return coordinates(self.launch.grid, int(self.blocks[row]))

    def flush(self) -> None:
        """The blocks are done: free their own memory, and hand over what they printed."""
        for region in self.batch.regions:
            self.launch.memory.discard(region)
        self.batch.regions.clear()
        self.batch.addresses.clear()
        self.say()

    def say(self) -> None:
        """Hand over what the blocks printed, by block in the order of the batch."""
        if self.batch.printed:
            order = {block: place for place, block in enumerate(self.blocks.tolist())}
            texts = [
                text for _, text in sorted(self.batch.printed, key=lambda piece: order[piece[0]])
            ]
            self.batch.printed.clear()
            self.launch.output("".join(texts))


def coordinates(grid: Grid, block: Any) -> tuple[Any, Any, Any]:
    """The place in a grid of a block's number, or of an array of them; x runs fastest."""
    x, y, _ = grid
    return block % x, block // x % y, block // (x * y)


# Does one operation for a batch.
Step: TypeAlias = Callable[[Frame], None]
# Runs a nested block that ends in a plain `yield`, its arguments being set, and gives what it
# yields.
Body: TypeAlias = Callable[[Frame], tuple[Any, ...]]
# Makes the step of an operation. The second argument makes bodies of nested blocks.
Binder: TypeAlias = Callable[[Op, Callable[[Block], Body]], Step]


def whole(held: Array, size: int) -> Array:
    """The array with one row for each of `size` blocks; not writable where rows are shared."""
    return held if held.shape[0] == size else np.broadcast_to(held, (size, *held.shape[1:]))
