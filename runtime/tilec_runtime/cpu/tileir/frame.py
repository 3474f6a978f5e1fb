"""The state of a launch and of its batches, and the interface of observers."""

from __future__ import annotations

import dataclasses
import enum
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np

from tilec_runtime.cpu.tileir.ir import Block, MemoryOrder, MemoryScope, Op, Value
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.values import Array, Rows, take

Grid = tuple[int, int, int]
# A kernel's name, and the number of an operation in it.
Site = tuple[str, int]
# Rotations of the pattern; over all of them each element is NaN, the largest and the lowest number.
ROTATIONS = 3
# Two more turns fill with one value each: with a pattern, "all elements are …" is never true.
TURNS = ROTATIONS + 2


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Undetermined:
    """The values of undetermined elements.

    Attributes:
        turn: rotation of the pattern if below `ROTATIONS`; then the largest number alone, then 1
            alone; None for zeros.
        site: the only operation with the pattern, others get zeros; None for all operations.
        blocks: blocks with lower numbers get the pattern, others zeros; None for all blocks.
        reached: called with the operation, its batch and an address of the array when
            undetermined elements are read; None for no call.
    """

    turn: int | None = 0
    site: Site | None = None
    blocks: int | None = None
    reached: Callable[[Op, Frame, int], None] | None = None


GARBAGE = Undetermined()


class AccessKind(enum.Enum):
    """The kind of an access."""

    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"  # read-modify-write


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Access:
    """Elements of one region that an operation of a batch is about to access.

    Attributes:
        op: the operation.
        frame: the batch; row i of `offsets` belongs to block `frame.blocks[i]`.
        region: the memory.
        offsets: byte offsets of the elements in the region, int64, shape (blocks, *tile). All are
            inside the region.
        mask: accessed elements, of the same shape; None for all.
        size: size of an element in bytes.
        kind, order, scope: kind, memory order and memory scope of the access.
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


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Outside:
    """Elements out of bounds: outside of the launch's memory or a view's tensor.

    A tile may exceed its tensor, unless the operation declares it in bounds, or no element of the
    tile is inside the tensor.

    Attributes:
        op, frame, kind: as in `Access`.
        rows: row of the block in the batch, per element.
        addresses: addresses of the elements.
        index: for a view, indices in the tensor, shape (elements, rank); None for pointers.
        shape: for a view, extents of the tensor, shape (elements, rank).
        promised: whether the operation declares the access in bounds; memory may exist there.
        tile: extents, along the tensor's dimensions, of tiles entirely outside; `index` and
            `addresses` then belong to the first element of each tile. None for single elements.
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
    """Callbacks during the execution of a kernel."""

    def access(self, access: Access) -> None:
        """Called before elements are accessed."""

    def outside(self, outside: Outside) -> bool:
        """Called for elements out of bounds; return whether to continue the launch.

        If it continues, these elements are read as zeros and not written. Whole tiles outside of
        their tensor never end the launch: reads give padding, and writes are dropped.
        """

    def assumed(self, op: Op, frame: Frame, broken: Array) -> None:
        """Called for a violated `assume`; `broken` has shape (blocks,) and marks blocks."""

    def asserted(self, op: Op, frame: Frame, failed: Array) -> bool:
        """Called for a failed `assert`; return whether to continue.

        `failed` marks the blocks.
        """

    def overflowed(self, op: Op, frame: Frame, wrapped: Array) -> None:
        """Called for an overflow in an operation that promises none.

        `wrapped` marks the blocks.
        """

    def computed(self, op: Op, frame: Frame) -> None:
        """Called after an operation with floating point results.

        Its operands and results are in the frame.
        """


def _print(text: str) -> None:
    sys.stdout.write(text)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Options of the interpreter.

    Attributes:
        kernel: name in messages; empty for the entry's symbol.
        order: order of the blocks: "forward", "reverse", or the seed of a random order.
        batch: most blocks to run at a time; 0 for a choice by the sizes of the tiles.
        steps: most loop iterations of one batch of blocks.
        elements: most elements that a launch may compute, as counted by `Footprint`.
        observer: receives every access and assumption; None for none, which is faster.
        output: takes the output of `print`.
        cancelled: returns whether to stop, called from time to time; for launches outside of the
            main thread.
        undetermined: source of values that Tile IR leaves undefined.
    """

    kernel: str = ""
    order: str | int = "forward"
    batch: int = 0
    steps: int = 10_000_000
    elements: int = 2_000_000_000_000
    observer: Observer | None = None
    output: Callable[[str], None] = _print
    cancelled: Callable[[], bool] | None = None
    undetermined: Undetermined = GARBAGE


DEFAULT = Options()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Launch:
    """The state shared by all blocks of a launch.

    Attributes:
        options: options of the interpreter, with the kernel's name.
        grid: blocks along x, y and z.
        memory: memory that the kernel may access.
        globals: address of each variable of the module.
        watched: whether runs pause at every operation.
    """

    options: Options
    grid: Grid
    memory: Memory
    globals: Mapping[str, int]
    watched: bool = False


@dataclasses.dataclass(slots=True, eq=False)
class Batch:
    """The mutable state of a batch.

    Attributes:
        passes: loop iterations so far.
        printed: printed texts with the number of their block.
        regions: memory that these blocks allocated.
        addresses: allocated addresses, by operation number and block.
    """

    passes: int = 0
    printed: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    regions: list[MemoryRegion] = dataclasses.field(default_factory=list)
    addresses: dict[int, dict[int, int]] = dataclasses.field(default_factory=dict)


class Frame:
    """The values of a batch of blocks.

    A frame narrowed to some of the blocks takes missing values from its parent frame.

    Attributes:
        launch: state of the launch.
        blocks: numbers of the blocks.
        batch: mutable state of the batch.
        values: values by number, without those that only the parent has.
    """

    __slots__ = ("_parent", "_rows", "batch", "blocks", "launch", "values")

    def __init__(
        self,
        launch: Launch,
        blocks: Array,
        parent: Frame | None = None,
        rows: Rows | None = None,
    ) -> None:
        self.launch = launch
        self.blocks = blocks
        self.batch: Batch = Batch() if parent is None else parent.batch
        self.values: dict[int, Any] = {}
        self._parent = parent
        self._rows = rows

    @property
    def size(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    def get(self, value: Value) -> Any:
        """Return the content of a value; for tiles an array of shape (blocks or 1, *tile)."""
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
        """Free values that no later operation needs."""
        for index in indices:
            self.values.pop(index, None)

    def narrow(self, rows: Rows) -> Frame:
        """Create a frame for some of the blocks; a row may repeat."""
        return Frame(self.launch, self.blocks[rows], self, rows)

    def place(self, row: int) -> Grid:
        """Return the block index (x, y, z) of a row of the batch."""
        return coordinates(self.launch.grid, int(self.blocks[row]))

    def flush(self) -> None:
        """Free the memory of finished blocks, and output their printed text."""
        for region in self.batch.regions:
            self.launch.memory.discard(region)
        self.batch.regions.clear()
        self.batch.addresses.clear()
        self.say()

    def say(self) -> None:
        """Output the printed text, by block in the order of the batch."""
        if self.batch.printed:
            order = {block: index for index, block in enumerate(self.blocks.tolist())}
            texts = [
                text for _, text in sorted(self.batch.printed, key=lambda piece: order[piece[0]])
            ]
            self.batch.printed.clear()
            self.launch.options.output("".join(texts))


def coordinates(grid: Grid, block: Any) -> tuple[Any, Any, Any]:
    """Convert block numbers (x is fastest) to block indices (x, y, z)."""
    x, y, _ = grid
    return block % x, block // x % y, block // (x * y)


# Executes one operation for a batch.
Step: TypeAlias = Callable[[Frame], None]
# Runs a nested block whose arguments are set and that ends in a plain `yield`; returns the yielded
# values.
Body: TypeAlias = Callable[[Frame], tuple[Any, ...]]
# Builds bodies of nested blocks.
Bodies: TypeAlias = Callable[[Block], Body]
# Builds the step of an operation.
Binder: TypeAlias = Callable[[Op, Bodies], Step]


def whole(held: Array, size: int) -> Array:
    """Expand an array to one row per block; read-only if rows are shared."""
    return held if held.shape[0] == size else np.broadcast_to(held, (size, *held.shape[1:]))
