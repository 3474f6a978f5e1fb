"""Memory of the cpu device: allocations by address, and foreign memory as bytes."""

from __future__ import annotations

import bisect
import threading
from typing import Any

import numpy as np

from tilec_runtime.device.seam import CopyBox, PoolStats
from tilec_runtime.forks import ForkLock

# As on a GPU, so that kernels that assume aligned addresses are chosen here too.
ALIGNMENT = 256

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Allocations:
    """What was allocated and not yet freed. A holder of the bytes of an allocation keeps its
    memory, also after it was freed.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self._lock = threading.RLock()  # reentrant: a collected buffer may be freed from inside
        self._bytes: dict[int, Bytes] = {}
        self._starts: list[int] = []

    def renew(self) -> None:
        """Forget who held the lock: in a forked child no thread does."""
        self._lock = threading.RLock()

    def allocate(self, size: int) -> int:
        """Memory of this many bytes; its address.

        Raises:
            MemoryError: there is not as much.
        """
        whole = np.empty(size + ALIGNMENT, np.uint8)
        lead = -whole.ctypes.data % ALIGNMENT
        data = whole[lead : lead + size]
        address = int(data.ctypes.data)
        with self._lock:
            self._bytes[address] = data
            bisect.insort(self._starts, address)
        return address

    def free(self, address: int) -> bool:
        """Give an allocation back; whether there was one at this address."""
        with self._lock:
            if self._bytes.pop(address, None) is None:
                return False
            del self._starts[bisect.bisect_left(self._starts, address)]
            return True

    def holding(self, address: int) -> tuple[int, Bytes] | None:
        """Start and bytes of the allocation that an address lies in."""
        with self._lock:
            place = bisect.bisect_right(self._starts, address) - 1
            if place < 0:
                return None
            start = self._starts[place]
            data = self._bytes[start]
        return (start, data) if address < start + data.size else None

    def part(self, address: int, size: int) -> Bytes | None:
        """Bytes of one allocation; None where they are not all in one."""
        holding = self.holding(address)
        if holding is None or address + size > holding[0] + holding[1].size:
            return None
        start = address - holding[0]
        return holding[1][start : start + size]


def rows_of(data: Bytes, box: CopyBox, *, target: bool) -> Bytes:
    """The bytes at one end of a copy, in the order in which they are copied."""
    slices, rows = (
        (box.target_slice, box.target_pitch) if target else (box.source_slice, box.source_pitch)
    )
    return np.lib.stride_tricks.as_strided(
        data, (box.slices, box.rows, box.width), (slices, rows, 1)
    )


class Pool:
    """A pool over the device's allocations. Memory that was freed is handed out again to who asks
    for as many bytes.
    """

    def __init__(
        self, allocations: Allocations, release_threshold: int = 0, max_size: int = 0
    ) -> None:
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
