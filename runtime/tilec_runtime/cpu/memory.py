"""Memory of the cpu device: allocations by address, pools, strided rows of bytes."""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np

from tilec_runtime.device.seam import CopyBox, PoolStats
from tilec_runtime.forks import ForkLock

# The alignment of GPU allocations, so that launches choose the same variants as on a GPU.
ALIGNMENT = 256

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Allocations:
    """The live allocations by address.

    A reference to the bytes of an allocation keeps its memory, also after `free`.
    """

    def __init__(self) -> None:
        """Start without allocations."""
        self._lock = ForkLock()  # reentrant: garbage collection inside may free a buffer
        self._bytes: dict[int, Bytes] = {}
        self._starts: list[int] = []

    def allocate(self, size: int) -> int:
        """Allocate `size` bytes and return their address.

        Raises:
            MemoryError: the machine has not enough memory.
        """
        whole = np.empty(size + ALIGNMENT, np.uint8)
        lead = -whole.ctypes.data % ALIGNMENT
        data = whole[lead : lead + size]
        address = int(data.ctypes.data)
        with self._lock:
            self._bytes[address] = data
            bisect.insort(self._starts, address)
        return address

    def free(self, address: int) -> None:
        """Free the allocation at an address."""
        with self._lock:
            del self._bytes[address]
            del self._starts[bisect.bisect_left(self._starts, address)]

    def holding(self, address: int) -> tuple[int, Bytes] | None:
        """Return (start, bytes) of the allocation that contains an address, or None."""
        with self._lock:
            index = bisect.bisect_right(self._starts, address) - 1
            if index < 0:
                return None
            start = self._starts[index]
            data = self._bytes[start]
        return (start, data) if address < start + data.size else None

    def part(self, address: int, size: int) -> Bytes | None:
        """Return `size` bytes at an address, or None if they are not in one allocation."""
        holding = self.holding(address)
        if holding is None or address + size > holding[0] + holding[1].size:
            return None
        start = address - holding[0]
        return holding[1][start : start + size]


def rows_of(data: Bytes, box: CopyBox, *, target: bool) -> Bytes:
    """Return source or target bytes of a copy as an array of (slices, rows, width)."""
    slices, rows = (
        (box.target_slice, box.target_pitch) if target else (box.source_slice, box.source_pitch)
    )
    return np.lib.stride_tricks.as_strided(
        data, (box.slices, box.rows, box.width), (slices, rows, 1)
    )


class Pool:
    """A memory pool that reuses a freed allocation for a request of the same size."""

    def __init__(
        self, allocations: Allocations, release_threshold: int = 0, max_size: int = 0
    ) -> None:
        """Start empty.

        Args:
            allocations: allocations of the device.
            release_threshold: unused bytes to keep.
            max_size: limit of the pool in bytes; 0 for no limit.
        """
        self._allocations = allocations
        self._lock = ForkLock()  # reentrant: garbage collection inside may free a tensor
        self._threshold = release_threshold
        self._max = max_size
        self._kept: dict[int, list[int]] = {}  # addresses of unused memory by size
        self._used = self._reserved = self._used_high = self._reserved_high = 0

    @property
    def stats(self) -> PoolStats:
        """Current and highest numbers of bytes."""
        with self._lock:
            return PoolStats(
                used=self._used,
                reserved=self._reserved,
                used_high=self._used_high,
                reserved_high=self._reserved_high,
                release_threshold=self._threshold,
            )

    def allocate(self, size: int) -> int:
        """Allocate `size` bytes and return their address.

        Raises:
            MemoryError: the machine has not enough memory, or the pool would exceed its limit.
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
        """Take back an allocation, and release unused memory beyond the threshold."""
        with self._lock:
            self._used -= size
            self._kept.setdefault(size, []).append(address)
            if self._reserved - self._used > self._threshold:
                self.trim(self._used + self._threshold)

    def set_threshold(self, size: int) -> None:
        """Set the number of unused bytes to keep."""
        with self._lock:
            self._threshold = size

    def trim(self, keep: int) -> None:
        """Release unused memory until all reserved memory is at most `keep` bytes."""
        with self._lock:
            for size in sorted(self._kept, reverse=True):
                addresses = self._kept[size]
                while addresses and self._reserved > keep:
                    self._allocations.free(addresses.pop())
                    self._reserved -= size
                if not addresses:
                    del self._kept[size]
