"""Which accesses of different blocks are ordered by synchronisation: releases and acquires through memory, as they took place."""

from __future__ import annotations

from tilec.tileir.ir import MemoryOrder, MemoryScope
from tilec.tileir.observe import Access, AccessKind
from tilec.tileir.values import Array

_ACQUIRES = (MemoryOrder.ACQUIRE, MemoryOrder.ACQ_REL)
_RELEASES = (MemoryOrder.RELEASE, MemoryOrder.ACQ_REL)
_SEEN = -1
_MOST_WORK = 20_000_000  # events looked at in all: enough for thousands of conflicting pairs, and still seconds


class SyncLog:
    """Strong accesses in the order in which they took place. Its length is the time.

    A block is ordered after another when it acquires what the other, or one ordered after it, released at the same address, and no
    plain write came between.
    """

    def __init__(self) -> None:
        self.exhausted = False
        self._events: list[tuple[int, int, bool, bool, bool]] = []  # block, address, acquires, releases, keeps what was released before
        self._known: dict[tuple[int, int], dict[int, int]] = {}
        self._work = 0

    @property
    def time(self) -> int:
        """Now."""
        return len(self._events)

    def record(self, access: Access, rows: Array, addresses: Array) -> None:
        """Note a strong access of blocks (one per address, in the order in which they take place)."""
        acquires = access.order in _ACQUIRES and access.kind is not AccessKind.WRITE
        releases = access.order in _RELEASES and access.kind is not AccessKind.READ
        writes = access.kind is AccessKind.WRITE
        if access.kind is AccessKind.READ and not acquires:
            return
        blocks = access.frame.blocks[rows].tolist()
        flags = ([flag] * len(blocks) for flag in (acquires, releases, not writes))
        self._events.extend(zip(blocks, addresses.tolist(), *flags, strict=True))

    def ordered(self, first: int, since: int, second: int, until: int) -> bool:
        """Whether what block `first` did at time `since` comes before what block `second` does at time `until`."""
        if not self._events:
            return False
        known = self._known.get((first, since))
        if known is None or known[_SEEN] < until:
            self._work += len(self._events) - since
            if self._work > _MOST_WORK:
                self.exhausted = True
                return True
            known = self._known[(first, since)] = self._follow(first, since)
        return known.get(second, until + 1) <= until

    def _follow(self, first: int, since: int) -> dict[int, int]:
        """Per block the time from which on it is ordered after the access; under _SEEN the time up to which that was looked at."""
        after = {first: since}
        carrying: set[int] = set()
        for time in range(since, len(self._events)):
            block, address, acquires, releases, keeps = self._events[time]
            if acquires and address in carrying:
                after.setdefault(block, time + 1)
            if releases and block in after:
                carrying.add(address)
            elif not keeps:
                carrying.discard(address)
        after[_SEEN] = len(self._events)
        return after


def is_strong(access: Access) -> bool:
    """Whether an access takes part in synchronisation between blocks."""
    return access.order is not MemoryOrder.WEAK and access.scope is not MemoryScope.TILE_BLOCK
