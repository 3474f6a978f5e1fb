"""Which accesses of different blocks are ordered by synchronisation: releases and acquires through memory, as they took place."""

from __future__ import annotations

import array

import numpy as np

from tilec.tileir.check.shadow import Touch
from tilec.tileir.ir import MemoryOrder, MemoryScope
from tilec.tileir.observe import Access, AccessKind

_ACQUIRES = (MemoryOrder.ACQUIRE, MemoryOrder.ACQ_REL)
_RELEASES = (MemoryOrder.RELEASE, MemoryOrder.ACQ_REL)
_ACQUIRE, _RELEASE, _KEEP = 1, 2, 4  # what an event does; _KEEP: what was released there before stays so
_SEEN = -1
_MOST_WORK = 20_000_000  # events looked at in all: enough for thousands of conflicting pairs, and still seconds
_MOST_EVENTS = 20_000_000  # of 17 bytes each


class SyncLog:
    """Strong accesses in the order in which they took place. Its length is the time.

    A block is ordered after another when it acquires what the other, or one ordered after it, released at the same address, and no
    plain write came between.
    """

    def __init__(self) -> None:
        self.exhausted = False
        self._blocks, self._addresses, self._flags = array.array("q"), array.array("q"), bytearray()
        self._known: dict[tuple[int, int], dict[int, int]] = {}
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

    def ordered(self, first: int, since: int, second: int, until: int) -> bool:
        """Whether what block `first` did at time `since` comes before what block `second` does at time `until`."""
        if self.exhausted:
            return True
        known = self._known.get((first, since))
        if known is None or known[_SEEN] < until:
            self._work += self.time - since
            if self._work > _MOST_WORK:
                self.exhausted = True
                return True
            known = self._known[(first, since)] = self._follow(first, since)
        return known.get(second, until + 1) <= until

    def _follow(self, first: int, since: int) -> dict[int, int]:
        """Per block the time from which on it is ordered after the access; under _SEEN the time up to which that was looked at."""
        after = {first: since}
        carrying: set[int] = set()
        for time in range(since, self.time):
            block, address, flags = self._blocks[time], self._addresses[time], self._flags[time]
            if flags & _ACQUIRE and address in carrying:
                after.setdefault(block, time + 1)
            if flags & _RELEASE and block in after:
                carrying.add(address)
            elif not flags & _KEEP:
                carrying.discard(address)
        after[_SEEN] = self.time
        return after


def is_strong(access: Access) -> bool:
    """Whether an access takes part in synchronisation between blocks."""
    return access.order is not MemoryOrder.WEAK and access.scope is not MemoryScope.TILE_BLOCK
