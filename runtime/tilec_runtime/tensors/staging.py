"""Pinned host memory, and an internal stream for copies."""

from __future__ import annotations

import collections
import weakref
from typing import Any

from tilec_runtime.device.lines import line_of
from tilec_runtime.device.seam import DeviceDriver
from tilec_runtime.errors import DriverError
from tilec_runtime.forks import ForkLock

# Bytes of the smallest block; of a slab, from which smaller blocks are cut; of unused larger blocks
# that are kept.
_SMALLEST, _SLAB, _MOST_KEPT = 64, 1 << 20, 64 << 20


class Staging:
    """The pinned memory of one device, and a stream of copies that wait for nothing.

    Attributes:
        stream: handle of the stream.
        line: the stream's line of memory uses.
    """

    def __init__(self, driver: DeviceDriver, ordinal: int) -> None:
        """Use `staging_of`."""
        self._driver = driver
        self._ordinal = ordinal
        self.stream = driver.create_stream(ordinal)
        self.line = line_of(driver, ordinal, self.stream)
        self._lock = ForkLock()
        # Free blocks by size. The garbage collector may return a block on any thread, so that step
        # is atomic and makes no driver call.
        self._free: dict[int, collections.deque[int]] = {}
        self._crowded = False  # whether unused blocks have to be freed

    def block(self, size: int, *, needed: bool) -> PinnedBlock | None:
        """Return pinned memory of at least `size` bytes, or None if none is left.

        Raises:
            DriverError: the driver has none left, and it is `needed`.
        """
        if self._crowded:
            with self._lock:
                self._crowded = False
                self._trim()
        # A large block is rounded up to slabs only: the next power of two may be twice the size.
        whole = (
            max(_SMALLEST, 1 << (size - 1).bit_length())
            if size <= _MOST_KEPT
            else -(-size // _SLAB) * _SLAB
        )
        free = self._free.setdefault(whole, collections.deque())
        while True:
            try:
                return PinnedBlock(self, free.popleft(), whole)
            except IndexError:
                pass
            try:
                self._more(whole, free)
            except DriverError:
                if needed:
                    raise
                return None

    def _more(self, whole: int, free: collections.deque[int]) -> None:
        if whole < _SLAB:
            start = self._driver.allocate_pinned(self._ordinal, _SLAB)
            free.extend(range(start, start + _SLAB, whole))
            return
        with self._lock:
            self._trim()
        free.append(self._driver.allocate_pinned(self._ordinal, whole))

    def _trim(self) -> None:
        """Free unused large blocks beyond the bytes that are kept."""
        sizes = [size for size in self._free if size >= _SLAB]
        unused = sum(size * len(self._free[size]) for size in sizes)
        for size in sizes:
            while unused > _MOST_KEPT:
                try:
                    address = self._free[size].popleft()
                except IndexError:
                    break
                self._driver.free_pinned(self._ordinal, address)
                unused -= size

    def _take_back(self, address: int, size: int) -> None:
        self._free[size].append(address)
        if size > _MOST_KEPT:
            self._crowded = True


class PinnedBlock:
    """Pinned memory that lives as long as its references; NumPy makes arrays of it."""

    __slots__ = ("__weakref__", "_staging", "address", "size")

    def __init__(self, staging: Staging, address: int, size: int) -> None:
        """Use `Staging.block`."""
        self._staging = staging
        self.address = address
        self.size = size

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Its bytes, for NumPy."""
        return {
            "data": (self.address, False),
            "shape": (self.size,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        """Return the memory for later blocks."""
        self._staging._take_back(self.address, self.size)  # noqa: SLF001 - same module


_STAGING: weakref.WeakKeyDictionary[DeviceDriver, dict[int, Staging]] = weakref.WeakKeyDictionary()
_LOCK = ForkLock()


def staging_of(driver: DeviceDriver, ordinal: int) -> Staging:
    """Return the staging memory of a device, created at its first use."""
    with _LOCK:
        known = _STAGING.setdefault(driver, {})
        if ordinal not in known:
            known[ordinal] = Staging(driver, ordinal)
        return known[ordinal]
