"""Shadow memory: the last writer and the readers of each element of a launch.

`SyncLog` records the synchronization between blocks.
"""

from __future__ import annotations

import array
import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from tilec_runtime.cpu.tileir.frame import Access, AccessKind
from tilec_runtime.cpu.tileir.ir import MemoryOrder, MemoryScope
from tilec_runtime.cpu.tileir.memory import MemoryRegion
from tilec_runtime.cpu.tileir.values import Array

_MARKS = ("writer", "write", "reader", "read", "reader_too", "read_too")


@dataclasses.dataclass(frozen=True, slots=True)
class Touch:
    """The shadow cells of an access.

    Attributes:
        cells: numbers of the cells; a slice if they are contiguous, which is several times faster.
        count: number of cells.
        blocks: number of the block per cell, plus 1.
    """

    cells: Array | slice
    count: int
    blocks: Array

    def cell(self, at: int) -> int:
        """Return the number of the cell at a position."""
        return self.cells.start + at if isinstance(self.cells, slice) else int(self.cells[at])

    def some(self, which: Array) -> Array:
        """Return the numbers of the cells that a mask selects."""
        return (
            np.flatnonzero(which) + self.cells.start
            if isinstance(self.cells, slice)
            else self.cells[which]
        )


class Shadow:
    """The shadow of one region, or of several regions that share bytes.

    A cell stands for one element, or for one byte after accesses with several element sizes.
    Blocks are stored as number + 1, so that 0 means no block; accesses by their number in the
    checker's list. Two readers are kept, the first one and the last different one: a writer that
    races with any reader races with at least one of these.
    """

    def __init__(
        self,
        regions: Sequence[MemoryRegion],
        uninitialized: Collection[str],
        blank: Mapping[str, Array],
    ) -> None:
        self.address = min(region.address for region in regions)
        size = max(region.end for region in regions) - self.address
        units = {
            region.itemsize if (region.address - self.address) % region.itemsize == 0 else 1
            for region in regions
        }
        self.unit = max(1, units.pop() if len(units) == 1 else 1)
        self.names = frozenset(region.name for region in regions)
        cells = -(-size // self.unit)
        self._size = size
        # Zero pages that are never written take no physical memory.
        self.writer, self.write = _no_block(cells), _no_block(cells)
        self.reader, self.read = _no_block(cells), _no_block(cells)
        self.reader_too, self.read_too = _no_block(cells), _no_block(cells)
        self.was_read = self.was_written = False
        self.blank: Array | None = None
        for region in regions:
            if region.name in uninitialized:
                if self.blank is None:
                    self.blank = np.zeros(cells, np.bool_)
                start = (region.address - self.address) // self.unit
                count = -(-region.data.size // self.unit)
                left = blank.get(region.name)
                # The first byte represents its cell, since elements are written completely.
                self.blank[start : start + count] = True if left is None else left[:: self.unit]

    def unwritten(self, region: MemoryRegion) -> Array | None:
        """Return which bytes of a region are unwritten, or None if all are initialized."""
        if self.blank is None:
            return None
        start = region.address - self.address
        return np.repeat(self.blank, self.unit)[start : start + region.data.size]

    def touch(self, access: Access, *, in_order: bool) -> Touch:
        """Return the cells of an access.

        Unless `in_order`, rows are sorted by address, which makes contiguous cells likely.
        """
        blocks = (access.frame.blocks + 1).astype(np.int32)
        rows: Array = np.arange(len(blocks))
        flat: Array = access.offsets.reshape(len(blocks), -1)
        chosen = (
            None
            if access.mask is None
            else np.broadcast_to(access.mask, access.offsets.shape).reshape(flat.shape)
        )
        if not in_order and len(flat) > 1 and (np.diff(flat[:, 0]) < 0).any():
            rows = np.argsort(flat[:, 0], kind="stable")
            flat, chosen = flat[rows], None if chosen is None else chosen[rows]
        each = flat.shape[1]
        if chosen is not None:
            rows = np.broadcast_to(rows[:, None], flat.shape)[chosen]
            flat, each = flat[chosen], 1
        flat = flat.reshape(-1) + (access.region.address - self.address)
        cells, many = self._cells(flat, access.size)
        each *= many
        return Touch(cells, len(flat) * many, np.repeat(blocks[rows], each))

    def _cells(self, flat: Array, size: int) -> tuple[Array | slice, int]:
        """Return the cells of elements at byte offsets, and the cells per element."""
        if not len(flat):
            return flat, 1
        if (
            size % self.unit
            or int(np.bitwise_or.reduce(flat)) % (self.unit & -self.unit)
            or (self.unit & (self.unit - 1))
        ):
            self._split()
        many = size // self.unit
        first, last = int(flat[0]), int(flat[-1])
        if last - first == (len(flat) - 1) * size and (np.diff(flat) == size).all():
            return slice(first // self.unit, (last + size) // self.unit), many
        cells = flat >> (self.unit.bit_length() - 1)
        if many > 1:
            cells = (cells[:, None] + np.arange(many)).reshape(-1)
        return cells, many

    def offset(self, cell: int, region: MemoryRegion) -> int:
        """Return the byte offset of a cell from the start of a region."""
        return cell * self.unit - (region.address - self.address)

    def note_read(self, touch: Touch, number: int, *, strong: bool) -> None:
        """Record readers.

        A later read of a block replaces its earlier one, except for a strong read, which would hide
        conflicts of a weak one.
        """
        self.was_read = True
        kept = self.reader[touch.cells]
        mine = kept == 0 if strong else (kept == 0) | (kept == touch.blocks)
        if mine.all():
            self.reader[touch.cells], self.read[touch.cells] = touch.blocks, number
            if isinstance(touch.cells, slice):
                return
        elif mine.any():
            cells = touch.some(mine)
            self.reader[cells], self.read[cells] = touch.blocks[mine], number
        others = self.reader[touch.cells] != touch.blocks
        if strong:
            others &= self.reader_too[touch.cells] == 0
        if others.any():
            cells = touch.some(others)
            self.reader_too[cells], self.read_too[cells] = touch.blocks[others], number

    def note_write(self, touch: Touch, number: int) -> None:
        """Record writers."""
        self.was_written = True
        self.writer[touch.cells], self.write[touch.cells] = touch.blocks, number
        if self.blank is not None:
            self.blank[touch.cells] = False

    def _split(self) -> None:
        """Change to one cell per byte."""
        if self.unit == 1:
            return
        for name in _MARKS:
            setattr(self, name, np.repeat(getattr(self, name), self.unit)[: self._size])
        if self.blank is not None:
            self.blank = np.repeat(self.blank, self.unit)[: self._size]
        self.unit = 1


def spans(
    regions: Iterable[MemoryRegion], uninitialized: Collection[str], blank: Mapping[str, Array]
) -> dict[MemoryRegion, Shadow]:
    """Return the shadow of each region.

    Regions that share bytes share a shadow.
    """
    shadows: dict[MemoryRegion, Shadow] = {}
    group: list[MemoryRegion] = []
    end = 0
    for region in [*sorted(regions, key=lambda item: item.address), None]:
        if group and (region is None or region.address >= end):
            shadow = Shadow(group, uninitialized, blank)
            shadows.update(dict.fromkeys(group, shadow))
            group, end = [], 0
        if region is not None:
            group.append(region)
            end = max(end, region.end)
    return shadows


def _no_block(cells: int) -> Array:
    return np.zeros(cells, np.int32)


_ACQUIRES = (MemoryOrder.ACQUIRE, MemoryOrder.ACQ_REL)
_RELEASES = (MemoryOrder.RELEASE, MemoryOrder.ACQ_REL)
_ACQUIRE, _RELEASE, _KEEP = (
    1,
    2,
    4,
)  # flags of an event; _KEEP: earlier releases at its address stay in effect
# Events to examine in total: enough for thousands of conflicting pairs, and a few seconds.
_MOST_WORK = 20_000_000
_MOST_KEPT = 256  # accesses with a cached order; each has the size of the number of blocks
_MOST_EVENTS = 20_000_000  # of 17 bytes each


class SyncLog:
    """The strong accesses in execution order.

    The number of accesses serves as the time.

    A block is ordered after another if it acquires an address that the other block, or a block
    ordered after it, has released, without a plain write to the address in between.
    """

    def __init__(self) -> None:
        self.exhausted = False
        self._blocks, self._addresses, self._flags = array.array("q"), array.array("q"), bytearray()
        # By block and time of an access: the time from which each block is ordered after it, the
        # addresses that pass the order on, and the time up to which this was computed.
        self._after: dict[tuple[int, int], tuple[dict[int, int], set[int], list[int]]] = {}
        self._before: dict[tuple[int, int], dict[int, int]] = {}
        self._work = 0

    @property
    def time(self) -> int:
        """The current time."""
        return len(self._flags)

    def record(self, access: Access, touch: Touch, address: int, unit: int) -> None:
        """Record a strong access; cells have `unit` bytes, from `address` on."""
        flags = _ACQUIRE * (access.order in _ACQUIRES and access.kind is not AccessKind.WRITE)
        flags |= _RELEASE * (access.order in _RELEASES and access.kind is not AccessKind.READ)
        flags |= _KEEP * (access.kind is not AccessKind.WRITE)
        # A relaxed access that is not a plain write does not affect the order.
        if flags == _KEEP:
            return
        if len(self._flags) + touch.count > _MOST_EVENTS:
            self.exhausted = True
            return
        cells = (
            np.arange(touch.cells.start, touch.cells.stop)
            if isinstance(touch.cells, slice)
            else touch.cells
        )
        self._blocks.frombytes((touch.blocks.astype(np.int64) - 1).tobytes())
        self._addresses.frombytes((address + cells * unit).astype(np.int64).tobytes())
        self._flags.extend(bytes([flags]) * touch.count)

    def ordered(
        self, first: int, since: int, second: int, until: int, *, backward: bool = False
    ) -> bool:
        """Whether block `first` at `since` is ordered before `second` at `until`.

        Results are cached. `backward` is faster if one block comes after many, forward if many
        come after one.
        """
        if self.exhausted:
            return True
        if backward:
            is_ordered = self._led_to(second, until).get(first, -1) >= since
        else:
            is_ordered = self._led_from(first, since, until).get(second, until + 1) <= until
        return is_ordered or self.exhausted

    def _led_from(self, first: int, since: int, until: int) -> dict[int, int]:
        """Return, per block, the time from which it is ordered after the access."""
        if len(self._after) > _MOST_KEPT:
            self._after.clear()
        after, carrying, seen = self._after.setdefault(
            (first, since), ({first: since}, set(), [since])
        )
        self._spend(max(until - seen[0], 0))
        for time in range(seen[0], until):
            block, address, flags = self._blocks[time], self._addresses[time], self._flags[time]
            if flags & _ACQUIRE and address in carrying:
                after.setdefault(block, time + 1)
            if flags & _RELEASE and block in after:
                carrying.add(address)
            elif not flags & _KEEP:
                carrying.discard(address)
        seen[0] = max(seen[0], until)
        return after

    def _led_to(self, second: int, until: int) -> dict[int, int]:
        """Return, per block, the last release that is ordered before the access."""
        known = self._before.get((second, until))
        if known is not None:
            return known
        if len(self._before) > _MOST_KEPT:
            self._before.clear()
        self._spend(until)
        before = {second: until}
        wanted: set[int] = set()
        for time in range(until - 1, -1, -1):
            block, address, flags = self._blocks[time], self._addresses[time], self._flags[time]
            if flags & _RELEASE and address in wanted:
                before.setdefault(block, time)
            if not flags & _KEEP:
                wanted.discard(address)
            if flags & _ACQUIRE and block in before:
                wanted.add(address)
        self._before[second, until] = before
        return before

    def _spend(self, events: int) -> None:
        self._work += events
        self.exhausted |= self._work > _MOST_WORK


def is_strong(access: Access) -> bool:
    """Whether an access takes part in synchronization between blocks."""
    return access.order is not MemoryOrder.WEAK and access.scope is not MemoryScope.TILE_BLOCK
