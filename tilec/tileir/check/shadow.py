"""For every element of a launch's memory: who wrote it last, who read it, and whether anybody wrote it at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from tilec.tileir.memory import Region
from tilec.tileir.values import Array


@dataclasses.dataclass(frozen=True, slots=True)
class Touch:
    """Cells of a region that an access touches: `cells[i]` is touched by the block in row `rows[i]` of the batch."""

    rows: Array
    cells: Array


class Shadow:
    """A span of memory: one region, or several that share bytes.

    A cell stands for one element (or one byte, once elements of several sizes were accessed). Blocks are kept as number + 1, so that 0 is
    nobody; accesses by their number in the checker's list. Of readers the first and the last other one are kept: a writer conflicts with
    at least one of them if it conflicts with any that is not ordered before it by synchronisation.
    """

    def __init__(self, regions: Sequence[Region], uninitialized: Collection[str]) -> None:
        self.address = min(region.address for region in regions)
        size = max(region.end for region in regions) - self.address
        units = {region.itemsize if (region.address - self.address) % region.itemsize == 0 else 1 for region in regions}
        self.unit = max(1, units.pop() if len(units) == 1 else 1)
        cells = -(-size // self.unit)
        self._size = size
        self.writer, self.write = _nobody(cells), _nobody(cells)
        self.reader, self.read = _nobody(cells), _nobody(cells)
        self.reader_too, self.read_too = _nobody(cells), _nobody(cells)
        self.initialized = np.ones(cells, np.bool_)
        for region in regions:
            if region.name in uninitialized:
                start = (region.address - self.address) // self.unit
                self.initialized[start : start + -(-region.data.size // self.unit)] = False

    def touch(self, offsets: Array, mask: Array | None, size: int) -> Touch:
        """Cells of elements of `size` bytes at byte offsets from the span's start, of shape (blocks, *tile)."""
        flat: Array = offsets.reshape(len(offsets), -1)
        rows: Array = np.broadcast_to(np.arange(len(flat))[:, None], flat.shape)
        if mask is not None:
            chosen = np.broadcast_to(mask, offsets.shape).reshape(flat.shape)
            flat, rows = flat[chosen], rows[chosen]
        flat, rows = flat.reshape(-1), rows.reshape(-1)
        if size % self.unit or (flat % self.unit).any():
            self._split()
        cells = flat // self.unit
        if (many := size // self.unit) > 1:
            cells = (cells[:, None] + np.arange(many)).reshape(-1)
            rows = np.repeat(rows, many)
        return Touch(rows, cells)

    def offset(self, cell: int, region: Region) -> int:
        """Byte offset of a cell from the start of a region of this span."""
        return cell * self.unit - (region.address - self.address)

    def note_read(self, touch: Touch, blocks: Array, number: int) -> None:
        """Keep who read."""
        free = self.reader[touch.cells] == 0
        self.reader[touch.cells[free]], self.read[touch.cells[free]] = blocks[free], number
        others = self.reader[touch.cells] != blocks
        self.reader_too[touch.cells[others]], self.read_too[touch.cells[others]] = blocks[others], number

    def note_write(self, touch: Touch, blocks: Array, number: int) -> None:
        """Keep who wrote."""
        self.writer[touch.cells], self.write[touch.cells] = blocks, number
        self.initialized[touch.cells] = True

    def _split(self) -> None:
        """Go over to one cell per byte."""
        if self.unit == 1:
            return
        for name in ("writer", "write", "reader", "read", "reader_too", "read_too", "initialized"):
            setattr(self, name, np.repeat(getattr(self, name), self.unit)[: self._size])
        self.unit = 1


def spans(regions: Iterable[Region], uninitialized: Collection[str]) -> dict[str, Shadow]:
    """The shadow of each region, by its name and address (`key`); regions that share bytes share one."""
    found: dict[str, Shadow] = {}
    group: list[Region] = []
    end = 0
    for region in [*sorted(regions, key=lambda item: item.address), None]:
        if group and (region is None or region.address >= end):
            shadow = Shadow(group, uninitialized)
            found.update((key(item), shadow) for item in group)
            group, end = [], 0
        if region is not None:
            group.append(region)
            end = max(end, region.end)
    return found


def key(region: Region) -> str:
    """What tells a region from the others of a launch."""
    return f"{region.name}@{region.address:x}"


def _nobody(cells: int) -> Array:
    return np.zeros(cells, np.int32)
