"""Pinned host memory, which a device copies from and to by itself, and the stream of copies that
wait for no other work.
"""

from __future__ import annotations

import collections
import weakref
from typing import Any

from tilec_runtime.device.marks import line_of
from tilec_runtime.device.seam import DeviceDriver
from tilec_runtime.errors import DriverError
from tilec_runtime.forks import ForkLock

# Bytes of the smallest block, of what blocks that are smaller are cut out of, and of unused larger
# ones that are kept for later.
_SMALLEST, _SLAB, _MOST_KEPT = 64, 1 << 20, 64 << 20


class Staging:
    """The pinned memory of one device, and a stream of its own: what it copies waits for no work of
    the device.

    Attributes:
        stream: handle.
        line: of its uses of memory.
    """

    def __init__(self, driver: DeviceDriver, ordinal: int) -> None:
        """Use `staging_of`."""
        self._driver = driver
        self._ordinal = ordinal
        self.stream = driver.create_stream(ordinal)
        self.line = line_of(driver, ordinal, self.stream)
        self._lock = ForkLock()
        # By size. The collector gives blocks back, on whatever thread: in one step of the
        # interpreter, and without a driver call.
        self._free: dict[int, collections.deque[int]] = {}
        self._crowded = False  # with more than is kept for later

    def block(self, size: int, *, needed: bool) -> PinnedBlock | None:
        """Pinned memory of at least this many bytes; None where there is none to be had.

        Raises:
            DriverError: there is none, and it is `needed`.
        """
        if self._crowded:
            with self._lock:
                self._crowded = False
                self._trim()
        # Large ones have the size that is asked for: twice as much would be too much.
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
        """Give unused large blocks back, until no more are left than are kept for later."""
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
        """Its bytes, as NumPy reads them."""
        return {
            "data": (self.address, False),
            "shape": (self.size,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        """Let it be used again."""
        self._staging._take_back(self.address, self.size)  # noqa: SLF001 - the two are one thing


_STAGING: weakref.WeakKeyDictionary[DeviceDriver, dict[int, Staging]] = weakref.WeakKeyDictionary()
_LOCK = ForkLock()


def staging_of(driver: DeviceDriver, ordinal: int) -> Staging:
    """The one of a device; made when it is first needed."""
    with _LOCK:
        known = _STAGING.setdefault(driver, {})
        if ordinal not in known:
            known[ordinal] = Staging(driver, ordinal)
        return known[ordinal]
