"""Memory pools: what is kept for later allocations, what is used, and how much there may be."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from tilec.errors import SchedulingError, UsageError
from tilec.runtime.devices import driver_of, ordinal_of
from tilec.runtime.protocols import DeviceLike
from tilec.runtime.seam import DeviceDriver, PoolHandle, PoolStats
from tilec.runtime.tensors.drops import DROPS


class MemPool:
    """A pool of a device's memory. It is given back by `close`, at the end of a `with` block, or with the object; tensors of it stay.

    Attributes:
        device: ordinal; -1 for the cpu device.
    """

    __slots__ = ("__weakref__", "_driver", "_finalizer", "_handle", "device")

    def __init__(
        self, device: DeviceLike = 0, *, release_threshold: int = 0, max_size: int = 0, driver: DeviceDriver | None = None
    ) -> None:
        """Make an empty pool.

        Args:
            device: where.
            release_threshold: how many unused bytes it keeps for later allocations instead of giving them back.
            max_size: the most bytes that it takes of the device; 0 for no bound.
            driver: what to make it through; the process's driver of the device by default.

        Raises:
            UsageError: a size is negative.
        """
        _check_size("release_threshold", release_threshold)
        _check_size("max_size", max_size)
        self._driver = driver or driver_of(device)
        self.device = ordinal_of(device)
        self._handle: PoolHandle | None = self._driver.create_pool(self.device, release_threshold, max_size)
        self._finalizer: Any = weakref.finalize(self, DROPS.call, functools.partial(self._driver.destroy_pool, self.device, self._handle))
        self._finalizer.atexit = False

    @property
    def handle(self) -> PoolHandle:
        """The driver's handle, for allocations.

        Raises:
            SchedulingError: the pool is closed.
        """
        if self._handle is None:
            raise SchedulingError("the pool is closed", fix="make a new one")
        return self._handle

    @property
    def stats(self) -> PoolStats:
        """What it holds now: bytes used and reserved, the most of each, and the threshold."""
        return self._driver.pool_stats(self.device, self.handle)

    def set_release_threshold(self, size: int) -> None:
        """Set how many unused bytes it keeps.

        Raises:
            UsageError: `size` is negative.
        """
        _check_size("release_threshold", size)
        self._driver.set_release_threshold(self.device, self.handle, size)

    def trim(self, keep: int = 0) -> None:
        """Give unused memory back until the pool has no more than `keep` bytes, as far as it can.

        Raises:
            UsageError: `keep` is negative.
        """
        _check_size("keep", keep)
        DROPS.drain()
        self._driver.trim_pool(self.device, self.handle, keep)

    def close(self) -> None:
        """Give the pool back; its tensors stay until they are dropped. May be called more than once."""
        self._handle = None
        self._finalizer()

    def __enter__(self) -> MemPool:  # noqa: PYI034 - nothing derives from it
        """The pool itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        self.close()


def _check_size(name: str, size: int) -> None:
    if size < 0:
        raise UsageError(f"{name} is {size}, and sizes are not negative")
