"""Memory pools: what is kept for later allocations, what is used, how much there may be, and which
one ops take memory from.
"""

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

# Pools of this thread or task, the innermost first.
_HERE: contextvars.ContextVar[tuple[MemPool, ...]] = contextvars.ContextVar(
    "tilec_pools", default=()
)


# All pools: their free memory is trimmed when an allocation needs it. The lock keeps a pool that
# is trimmed from being closed.
_MADE: weakref.WeakSet[MemPool] = weakref.WeakSet()
_LOCK = ForkLock()
# What has pools that were borrowed.
_OWNERS: list[Any] = []


class MemPool(Uncopied):
    """A pool of a device's memory. It is given back by `close`, at the end of a `with` block, or
    with the object; tensors of it stay.

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
        """Make an empty pool.

        Args:
            device: where; the default device (`use_device`) where none is named.
            release_threshold: how many unused bytes it keeps for later allocations instead of
                giving them back.
            max_size: the most bytes that it takes of the device; 0 for no bound.
            driver: what to make it through; the process's driver of the device by default.

        Raises:
            CallError: a size is no whole number of bytes, or negative.
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
        """The pool that tilec has for a device, which all memory comes from where no `use_pool`
        says otherwise. Closing it does nothing.

        A GPU's keeps all that is freed, until `trim` or the want of memory gives it back; the cpu
        device's keeps nothing. Set another threshold where that is not wanted.

        Args:
            device: whose; the default device's where none is named.
            driver: of the device; the process's by default.
        """
        pool, serving = cls.__new__(cls), driver or driver_of(device)
        pool.device = ordinal_of(device)
        pool._driver, pool._handle = serving, serving.default_pool(pool.device)  # noqa: SLF001 - one of its own
        pool._release = None  # noqa: SLF001 - likewise
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
        """A pool that another library made, such as a memory resource of cuda.core. Closing it
        leaves it as it is.

        Args:
            handle: of the driver: a `CUmemoryPool`, or its number.
            device: whose it is; the default device's where none is named.
            owner: what gives the pool back when it goes: the library's own object. It is kept to
                the end of the process, since memory of the pool may live as long.
            driver: of the device; the process's by default.

        Raises:
            CallError: it is no handle.
        """
        fix = "pass the driver's handle: `resource.handle` of a DeviceMemoryResource of cuda.core"
        number = handle_number(handle, "a memory pool", fix)
        if not number:
            raise CallError("the handle of the memory pool is null")
        pool = cls.default(device, driver=driver)
        pool._handle = number  # noqa: SLF001 - one of its own
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
        """Whether its memory is this device's."""
        return self._driver is driver and self.device == ordinal

    @property
    def stats(self) -> PoolStats:
        """Bytes used and reserved now, the most of each so far, and the release threshold."""
        FREES.drain()
        return self._driver.pool_stats(self.device, self.handle)

    def set_release_threshold(self, size: int) -> None:
        """Set how many unused bytes it keeps.

        Raises:
            CallError: `size` is no whole number of bytes, or negative.
        """
        self._driver.set_release_threshold(
            self.device, self.handle, byte_count("set_release_threshold: size", size)
        )

    def trim(self, keep: int = 0) -> None:
        """Give unused memory back until the pool has no more than `keep` bytes, as far as it can.

        Raises:
            CallError: `keep` is no whole number of bytes, or negative.
        """
        keep = byte_count("trim: keep", keep)
        FREES.drain()
        self._driver.trim_pool(self.device, self.handle, keep)

    def close(self) -> None:
        """Give the pool back; its tensors stay until they are dropped. May be called more than
        once.
        """
        if self._release is not None:
            with _LOCK:
                self._handle = None
                self._release()

    def __enter__(self) -> MemPool:  # noqa: PYI034 - nothing derives from it
        """The pool itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        self.close()


@contextlib.contextmanager
def use_pool(pool: MemPool) -> Iterator[MemPool]:
    """Let ops that this thread or task runs on the pool's device take their memory from it.

    Raises:
        CallError: it is no pool.
        SchedulingError: it is closed.
    """
    require_kind("use_pool", "a MemPool", pool, MemPool, "pass MemPool(device, ...)")
    _ = pool.handle  # it is open
    token = _HERE.set((pool, *_HERE.get()))
    try:
        yield pool
    finally:
        with contextlib.suppress(
            ValueError
        ):  # a generator's block may end in another context than it began in: there is nothing to undo
            _HERE.reset(token)


def trim_all(driver: DeviceDriver, ordinal: int) -> None:
    """Give back what tilec's pools of a device keep unused, all of them."""
    with _LOCK:
        pools = [
            pool for pool in list(_MADE) if pool.serves(driver, ordinal)
        ]  # the collector gives none of them back meanwhile
        for handle in (driver.default_pool(ordinal), *(pool._handle for pool in pools)):  # noqa: SLF001 - of this module
            if handle is not None:
                driver.trim_pool(ordinal, handle, 0)


def pool_here(driver: DeviceDriver, ordinal: int) -> PoolHandle | None:
    """The handle of the innermost pool of this thread or task on a device; None for the device's
    own.

    Raises:
        SchedulingError: it was closed meanwhile.
    """
    for pool in _HERE.get():
        if pool.serves(driver, ordinal):
            return pool.handle
    return None
