"""Which accesses of different blocks are ordered by synchronisation: releases and acquires through memory, as they took place."""

from __future__ import annotations

import array

import numpy as np

from tilec_runtime.cpu.tileir.check.shadow import Touch
from tilec_runtime.cpu.tileir.ir import MemoryOrder, MemoryScope
from tilec_runtime.cpu.tileir.observe import Access, AccessKind

_ACQUIRES = (MemoryOrder.ACQUIRE, MemoryOrder.ACQ_REL)
_RELEASES = (MemoryOrder.RELEASE, MemoryOrder.ACQ_REL)
_ACQUIRE, _RELEASE, _KEEP = 1, 2, 4  # what an event does; _KEEP: what was released there before stays so
_MOST_WORK = 20_000_000  # events looked at in all: enough for thousands of conflicting pairs, and still seconds
_MOST_KEPT = 256  # accesses whose order is remembered: each is as large as the number of blocks
_MOST_EVENTS = 20_000_000  # of 17 bytes each


class SyncLog:
    """Strong accesses in the order in which they took place. Its length is the time.

    A block is ordered after another when it acquires what the other, or one ordered after it, released at the same address, and no
    plain write came between.
    """

    def __init__(self) -> None:
        self.exhausted = False
        self._blocks, self._addresses, self._flags = array.array("q"), array.array("q"), bytearray()
        # By block and time of an access: per block from when on it is after it, addresses that carry this on, up to when that was followed.
        self._after: dict[tuple[int, int], tuple[dict[int, int], set[int], list[int]]] = {}
        self._before: dict[tuple[int, int], dict[int, int]] = {}
        self._work = 0

    @property
    def time(self) -> int:
        """Now."""
        return len(self._flags)

    def record(self, access: Access, touch: Touch, address: int, unit: int) -> None:
        """Note a strong access of blocks, in the order in which they take place; cells of `unit` bytes are counted from `address`."""
        flags = _ACQUIRE * (access.order in _ACQUIRES and access.kind is not AccessKind.WRITE)
        flags |= _RELEASE * (access.order in _RELEASES and access.kind is not AccessKind.READ)
        flags |= _KEEP * (access.kind is not AccessKind.WRITE)
        # What is relaxed and writes nothing of its own over a release changes no order.
        if flags == _KEEP:
            return
        if len(self._flags) + touch.count > _MOST_EVENTS:
            self.exhausted = True
            return
        cells = np.arange(touch.cells.start, touch.cells.stop) if isinstance(touch.cells, slice) else touch.cells
        self._blocks.frombytes((touch.blocks.astype(np.int64) - 1).tobytes())
        self._addresses.frombytes((address + cells * unit).astype(np.int64).tobytes())
        self._flags.extend(bytes([flags]) * touch.count)

    def ordered(self, first: int, since: int, second: int, until: int, *, backward: bool = False) -> bool:
        """Whether what block `first` did at time `since` comes before what block `second` does at time `until`.

        What is looked up is remembered: `backward` is faster where one block comes after many, the other way where many come after one.
        """
        if self.exhausted:
            return True
        if backward:
            found = self._led_to(second, until).get(first, -1) >= since
        else:
            found = self._led_from(first, since, until).get(second, until + 1) <= until
        return found or self.exhausted

    def _led_from(self, first: int, since: int, until: int) -> dict[int, int]:
        """Per block the time from which on it is ordered after the access."""
        if len(self._after) > _MOST_KEPT:
            self._after.clear()
        after, carrying, seen = self._after.setdefault((first, since), ({first: since}, set(), [since]))
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
        """Per block the last release that orders it before the access: what it did up to then, it did before."""
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
    """Whether an access takes part in synchronisation between blocks."""
    return access.order is not MemoryOrder.WEAK and access.scope is not MemoryScope.TILE_BLOCK
