"""Garbage for values that Tile IR leaves undetermined.

Undetermined are elements that a load reads beyond its tensor's edge where its view names no padding
value, elements that the mask of a load leaves out where the load has no padding value, and what an
atomic gives for elements that its mask leaves out. A kernel that uses them fails without a GPU too.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilec_runtime.cpu.tileir.ir import Op
from tilec_runtime.cpu.tileir.layout import Layout
from tilec_runtime.cpu.tileir.values import Array

if TYPE_CHECKING:
    from tilec_runtime.cpu.tileir.frame import Frame

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
        turn: below `ROTATIONS`, how far the pattern is rotated; then the largest number alone, and 1
            alone; None for zeros.
        site: the only operation that gives the pattern, the others give zeros; None for all.
        blocks: blocks with a number below this get the pattern, the others zeros; None for all.
        reached: called when undetermined elements are read, with the operation, its batch and an
            address of the array; None for nobody.
    """

    turn: int | None = 0
    site: Site | None = None
    blocks: int | None = None
    reached: Callable[[Op, Frame, int], None] | None = None


GARBAGE = Undetermined()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Garbage:
    """Fills undetermined elements of one operation.

    Attributes:
        op: the operation. layout: of its elements. shape: of its tile.
    """

    op: Op
    layout: Layout
    shape: tuple[int, ...]

    def fill(self, frame: Frame, address: int) -> Array:
        """Return elements as they lie in memory, of shape (blocks or 1, *tile).

        `address` is one of the array that is read.
        """
        wish = frame.launch.undetermined
        if wish.reached is not None:
            wish.reached(self.op, frame, address)
        zeros = np.zeros((1, *self.shape), self.layout.raw)
        if wish.turn is None or (wish.site is not None and wish.site != (frame.launch.kernel, self.op.number)):
            return zeros
        pattern = _pattern(self.layout, self.shape, wish.turn)
        if wish.blocks is None:
            return pattern
        rows = (frame.blocks < wish.blocks).reshape(-1, *(1,) * len(self.shape))
        return np.where(rows, pattern, zeros)


@functools.lru_cache(maxsize=64)
def _pattern(layout: Layout, shape: tuple[int, ...], turn: int) -> Array:
    """Repeat the hostile values of a type over a tile, or one value alone.

    Rows of a pattern differ by a shift: extents are powers of 2, and there are three values.
    """
    hostile = layout.hostile()
    values = np.roll(hostile, -turn) if turn < ROTATIONS else (hostile[1:2], layout.one())[turn - ROTATIONS]
    found = np.resize(values, (1, *shape))
    found.flags.writeable = False
    return found
