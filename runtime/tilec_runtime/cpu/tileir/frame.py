"""A batch of blocks that runs together: which blocks they are, and what each value holds for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tilec_runtime.cpu.tileir.ir import Block, Op, Value
from tilec_runtime.cpu.tileir.undetermined import GARBAGE, Undetermined
from tilec_runtime.cpu.tileir.values import Array, Rows, take

if TYPE_CHECKING:
    from tilec_runtime.cpu.tileir.limits import Batch
    from tilec_runtime.cpu.tileir.memory import Memory
    from tilec_runtime.cpu.tileir.observe import Observer

Grid = tuple[int, int, int]


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
    """

    kernel: str
    grid: Grid
    memory: Memory
    observer: Observer | None
    output: Callable[[str], None]
    globals: Mapping[str, int]
    undetermined: Undetermined = GARBAGE

    def coordinates(self, blocks: Array) -> tuple[Array, Array, Array]:
        """Place in the grid of blocks that are numbered with x running fastest."""
        x, y, _ = self.grid
        return blocks % x, blocks // x % y, blocks // (x * y)


class Frame:
    """Values of a batch. A frame for some of the blocks finds what it lacks in the frame that it was narrowed from.

    Attributes:
        launch: what all blocks share.
        blocks: numbers of the blocks of this batch.
        batch: what these blocks have used up and printed; None where an operation runs by itself.
    """

    __slots__ = ("_parent", "_rows", "_values", "batch", "blocks", "launch")

    def __init__(
        self, launch: Launch, blocks: Array, parent: Frame | None = None, rows: Rows | None = None, batch: Batch | None = None
    ) -> None:
        self.launch = launch
        self.blocks = blocks
        self.batch: Batch | None = parent.batch if parent is not None else batch
        self._values: dict[int, Any] = {}
        self._parent = parent
        self._rows = rows

    @property
    def size(self) -> int:
        """How many blocks there are."""
        return len(self.blocks)

    def get(self, value: Value) -> Any:
        """What a value holds: for tiles an array of shape (blocks or 1, *tile)."""
        try:
            return self._values[value.index]
        except KeyError:
            assert self._parent is not None
            assert self._rows is not None
            found = self._values[value.index] = take(self._parent.get(value), self._rows)
            return found

    def set(self, value: Value, held: Any) -> None:
        """Define a value."""
        self._values[value.index] = held

    def held(self) -> Mapping[int, Any]:
        """What is held here, by the values' numbers; what only the frame before has is not in it."""
        return self._values

    def forget(self, indices: tuple[int, ...]) -> None:
        """Free values that nothing needs any more."""
        for index in indices:
            self._values.pop(index, None)

    def narrow(self, rows: Rows) -> Frame:
        """A frame for some of the blocks; a row may come more than once."""
        return Frame(self.launch, self.blocks[rows], self, rows)


# Does one operation for a batch.
Step: TypeAlias = Callable[[Frame], None]
# Runs a nested block that ends in a plain `yield`, its arguments being set, and gives what it yields.
Body: TypeAlias = Callable[[Frame], tuple[Any, ...]]
# Makes the step of an operation. The second argument makes bodies of nested blocks.
Binder: TypeAlias = Callable[[Op, Callable[[Block], Body]], Step]


def uniform(held: Array) -> bool:
    """Whether every block holds the same, as far as can be told at little cost."""
    return held.shape[0] == 1 or bool((held == held[:1]).all())


def whole(held: Array, size: int) -> Array:
    """The array with one row for each of `size` blocks; not writable where rows are shared."""
    return held if held.shape[0] == size else np.broadcast_to(held, (size, *held.shape[1:]))
