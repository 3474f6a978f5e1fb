"""Memory pools: their limits and statistics, and the pool that ops allocate from."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import weakref
from collections.abc import Iterator
from typing import Any

from tilec_runtime.device.devices import driver_of, ordinal_of
from tilec_runtime.device.frees import FREES, Release
from tilec_runtime.device.scalars import byte_count, handle_number, require_kind
from tilec_runtime.device.seam import DeviceDriver, PoolHandle, PoolStats
from tilec_runtime.errors import CallError, SchedulingError
from tilec_runtime.forks import ForkLock
from tilec_runtime.protocols import DeviceLike
from tilec_runtime.values import Uncopied

# The pools of `use_pool` in this thread or task, the innermost first.
_HERE: contextvars.ContextVar[tuple[MemPool, ...]] = contextvars.ContextVar(
    "tilec_pools", default=()
)


# All pools: an allocation that fails trims them. Under the lock, no pool is closed while it is
# trimmed.
_MADE: weakref.WeakSet[MemPool] = weakref.WeakSet()
_LOCK = ForkLock()
# The owners of borrowed pools.
_OWNERS: list[Any] = []


class MemPool(Uncopied):
    """A pool of a device's memory.

    `close`, the end of a `with` block, or its finalization destroys it. Its tensors stay valid.

    Attributes:
        device: ordinal; -1 for the cpu device.
    """

    __slots__ = ("__weakref__", "_driver", "_handle", "_release", "device")

    def __init__(
        self,
        device: DeviceLike | None = None,
        *,
        release_threshold: int = 0,
        max_size: int = 0,
        driver: DeviceDriver | None = None,
    ) -> None:
        """Create an empty pool.

        Args:
            device: the device; None for the default device (`use_device`).
            release_threshold: unused bytes that the pool keeps for later allocations.
            max_size: the most bytes that it takes from the device; 0 for no bound.
            driver: the driver of the device; the process's driver for it by default.

        Raises:
            CallError: a size is not a whole number of bytes, or is negative.
        """
        release_threshold = byte_count("MemPool: release_threshold", release_threshold)
        most = byte_count("MemPool: max_size", max_size)
        self._driver = driver or driver_of(device)
        self.device = ordinal_of(device)
        self._handle: PoolHandle | None = self._driver.create_pool(
            self.device, release_threshold, most
        )
        self._release: Release | None = Release(
            functools.partial(self._driver.destroy_pool, self.device, self._handle)
        )
        with _LOCK:
            _MADE.add(self)

    @classmethod
    def default(
        cls, device: DeviceLike | None = None, *, driver: DeviceDriver | None = None
    ) -> MemPool:
        """Return tilec's own pool of a device, used outside of any `use_pool`.

        `close` does nothing to it. A GPU's pool keeps all memory that is freed until `trim`, or
        until an allocation fails for want of memory. The cpu device's pool keeps nothing.
        `set_release_threshold` changes that.

        Args:
            device: the device; None for the default device.
            driver: the driver of the device; the process's driver for it by default.
        """
        pool, serving = cls.__new__(cls), driver or driver_of(device)
        pool.device = ordinal_of(device)
        pool._driver, pool._handle = serving, serving.default_pool(pool.device)  # noqa: SLF001 - an object of this class
        pool._release = None  # noqa: SLF001 - an object of this class
        return pool

    @classmethod
    def borrow_raw(
        cls,
        handle: Any,
        device: DeviceLike | None = None,
        *,
        owner: Any = None,
        driver: DeviceDriver | None = None,
    ) -> MemPool:
        """Return a pool of another library, such as a memory resource of cuda.core.

        `close` does not destroy it.

        Args:
            handle: the driver's handle: a `CUmemoryPool`, or its number.
            device: the device; None for the default device.
            owner: the library's own object, which destroys the pool when finalized. It is kept
                until the process ends, because memory of the pool may live as long.
            driver: the driver of the device; the process's driver for it by default.

        Raises:
            CallError: `handle` is not a handle.
        """
        fix = "pass the driver's handle: `resource.handle` of a DeviceMemoryResource of cuda.core"
        number = handle_number(handle, "a memory pool", fix)
        if not number:
            raise CallError("the handle of the memory pool is null")
        pool = cls.default(device, driver=driver)
        pool._handle = number  # noqa: SLF001 - an object of this class
        if owner is not None and not any(kept is owner for kept in _OWNERS):
            _OWNERS.append(owner)
        return pool

    @property
    def handle(self) -> PoolHandle:
        """The driver's handle, for allocations.

        Raises:
            SchedulingError: the pool is closed.
        """
        if self._handle is None:
            raise SchedulingError("the pool is closed", fix="make a new one")
        return self._handle

    def serves(self, driver: DeviceDriver, ordinal: int) -> bool:
        """Whether its memory is on this device."""
        return self._driver is driver and self.device == ordinal

    @property
    def stats(self) -> PoolStats:
        """Bytes used and reserved, the maximum of each, and the release threshold."""
        FREES.drain()
        return self._driver.pool_stats(self.device, self.handle)

    def set_release_threshold(self, size: int) -> None:
        """Set how many unused bytes it keeps.

        Raises:
            CallError: `size` is not a whole number of bytes, or is negative.
        """
        self._driver.set_release_threshold(
            self.device, self.handle, byte_count("set_release_threshold: size", size)
        )

    def trim(self, keep: int = 0) -> None:
        """Return unused memory to the device down to `keep` bytes, if possible.

        Raises:
            CallError: `keep` is not a whole number of bytes, or is negative.
        """
        keep = byte_count("trim: keep", keep)
        FREES.drain()
        self._driver.trim_pool(self.device, self.handle, keep)

    def close(self) -> None:
        """Destroy the pool; its tensors stay valid. Further calls do nothing."""
        if self._release is not None:
            with _LOCK:
                self._handle = None
                self._release()

    def __enter__(self) -> MemPool:  # noqa: PYI034 - nothing derives from it
        """Return the pool itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the pool."""
        self.close()


@contextlib.contextmanager
def use_pool(pool: MemPool) -> Iterator[MemPool]:
    """Let ops that this thread or task runs on its device allocate from a pool.

    Raises:
        CallError: `pool` is not a `MemPool`.
        SchedulingError: it is closed.
    """
    require_kind("use_pool", "a MemPool", pool, MemPool, "pass MemPool(device, ...)")
    _ = pool.handle  # raises if the pool is closed
    token = _HERE.set((pool, *_HERE.get()))
    try:
        yield pool
    finally:
        with contextlib.suppress(
            ValueError
        ):  # in a generator the block may end in another context, which needs no reset
            _HERE.reset(token)


def trim_all(driver: DeviceDriver, ordinal: int) -> None:
    """Return the unused memory of all tilec's pools of a device."""
    with _LOCK:
        pools = [
            pool for pool in list(_MADE) if pool.serves(driver, ordinal)
        ]  # references, so that the garbage collector destroys none of them meanwhile
        for handle in (driver.default_pool(ordinal), *(pool._handle for pool in pools)):  # noqa: SLF001 - of this module
            if handle is not None:
                driver.trim_pool(ordinal, handle, 0)


def pool_here(driver: DeviceDriver, ordinal: int) -> PoolHandle | None:
    """Return the innermost `use_pool`'s handle for a device, or None.

    Raises:
        SchedulingError: the pool was closed meanwhile.
    """
    for pool in _HERE.get():
        if pool.serves(driver, ordinal):
            return pool.handle
    return None
