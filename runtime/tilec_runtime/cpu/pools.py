"""Memory pools of the cpu device: freed memory that is kept for later, and the count of what is used."""

from __future__ import annotations

from tilec_runtime.cpu.memory import Allocations
from tilec_runtime.forks import ForkLock
from tilec_runtime.seam import PoolStats


class Pool:
    """A pool over the device's allocations. Memory that was freed is handed out again to who asks for as many bytes."""

    def __init__(self, allocations: Allocations, release_threshold: int = 0, max_size: int = 0) -> None:
        """Start empty.

        Args:
            allocations: of the device.
            release_threshold: how many unused bytes to keep.
            max_size: the most bytes to have; 0 for no bound.
        """
        self._allocations = allocations
        self._lock = ForkLock()  # reentrant: a collected tensor may be freed from inside
        self._threshold = release_threshold
        self._max = max_size
        self._kept: dict[int, list[int]] = {}  # addresses by size
        self._used = self._reserved = self._used_high = self._reserved_high = 0

    @property
    def stats(self) -> PoolStats:
        """What it holds now."""
        with self._lock:
            return PoolStats(
                used=self._used,
                reserved=self._reserved,
                used_high=self._used_high,
                reserved_high=self._reserved_high,
                release_threshold=self._threshold,
            )

    def allocate(self, size: int) -> int:
        """Memory of this many bytes; its address.

        Raises:
            MemoryError: there is not as much, or the pool may not have as much.
        """
        with self._lock:
            kept = self._kept.get(size)
            if kept:
                address = kept.pop()
            else:
                if self._max and self._reserved + size > self._max:
                    self.trim(max(self._max - size, 0))
                if self._max and self._reserved + size > self._max:
                    raise MemoryError(size)
                address = self._allocations.allocate(size)
                self._reserved += size
            self._used += size
            self._used_high = max(self._used_high, self._used)
            self._reserved_high = max(self._reserved_high, self._reserved)
            return address

    def free(self, address: int, size: int) -> None:
        """Take memory back: keep it, as far as the threshold allows."""
        with self._lock:
            self._used -= size
            self._kept.setdefault(size, []).append(address)
            if self._reserved - self._used > self._threshold:
                self.trim(self._used + self._threshold)

    def set_threshold(self, size: int) -> None:
        """Set how many unused bytes to keep."""
        with self._lock:
            self._threshold = size

    def trim(self, keep: int) -> None:
        """Give unused memory back until no more than `keep` bytes are left, used ones among them."""
        with self._lock:
            for size in sorted(self._kept, reverse=True):
                addresses = self._kept[size]
                while addresses and self._reserved > keep:
                    self._allocations.free(addresses.pop())
                    self._reserved -= size
                if not addresses:
                    del self._kept[size]
