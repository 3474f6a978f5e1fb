"""Loaded images. The first launch of an image on a device loads it, in any thread."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from tilec_runtime.device.seam_types import FunctionFacts, FunctionHandle, ModuleHandle
from tilec_runtime.errors import ContextLostError, DriverError, KernelCacheError, TileIRError
from tilec_runtime.forks import ForkLock
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.jit import JitBy
from tilec_runtime.values import value_class

if TYPE_CHECKING:
    from tilec_runtime.device.seam import DeviceDriver

T = TypeVar("T")


@value_class(frozen=True, kw_only=True)
class LoadedFunction:
    """An entry point that is ready to launch."""

    handle: FunctionHandle
    facts: FunctionFacts


class ImageStore:
    """The images that one driver has loaded.

    Images stay loaded until the process ends, because kernels may still run from them.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._lock = ForkLock()
        self._locks: dict[tuple[Any, ...], ForkLock] = {}
        self._values: dict[tuple[Any, ...], Any] = {}

    def function(
        self,
        driver: DeviceDriver,
        ordinal: int,
        image: ImageInfo,
        kernel: str,
        code: Callable[[], bytes],
        by: JitBy | None = None,
    ) -> LoadedFunction:
        """Return the entry point of an image on a device; load the image at its first use.

        Args:
            driver: the driver that loads it.
            ordinal: the device.
            image: the image's index entry.
            kernel: name of its kernel, for messages.
            code: returns the bytes to load: the image itself, or machine code compiled from it.
            by: the compiler of that machine code, or None.

        Raises:
            KernelCacheError: the driver refuses the image.
            ContextLostError: the device's context is lost.
            TileIRError: the cpu device cannot read the image.
        """

        def load() -> ModuleHandle:
            return driver.load_module(ordinal, code())

        def look_up() -> LoadedFunction:
            module = self._once((ordinal, image.digest, by), load)
            handle = driver.function(module, image.symbol)
            return LoadedFunction(handle=handle, facts=driver.function_facts(handle))

        subject = f"{kernel}: the image for {image.target} ({image.symbol})"
        try:
            with refusals(f"{subject} cannot be loaded", ordinal, kernel):
                return self._once((ordinal, image.digest, by, image.symbol), look_up)
        except TileIRError as error:
            message = f"{subject} cannot be run: {error.what}"
            raise TileIRError(message, cause=error.cause, fix=error.fix, kernel=kernel) from error

    def _once(self, key: tuple[Any, ...], make: Callable[[], T]) -> T:
        """Return the value of a key; the first thread makes it. A failure is not cached."""
        with self._lock:
            lock = self._locks.setdefault(key, ForkLock())
        with lock:
            if key not in self._values:
                self._values[key] = make()
            value: T = self._values[key]
            return value


@contextlib.contextmanager
def refusals(subject: str, ordinal: int, kernel: str = "") -> Iterator[None]:
    """Turn a driver's refusal of an image or entry point into an error that names it.

    Raises:
        KernelCacheError: the driver refused it.
    """
    try:
        yield
    except ContextLostError:  # not caused by the image
        raise
    except DriverError as error:
        raise KernelCacheError(
            f"{subject}: {error.what}",
            result=error.result,
            code=error.code,
            cause=error.cause,
            fix=error.fix,
            kernel=kernel,
            device=ordinal,
        ) from error


_STORES: weakref.WeakKeyDictionary[DeviceDriver, ImageStore] = weakref.WeakKeyDictionary()
_STORES_LOCK = ForkLock()


def store_of(driver: DeviceDriver) -> ImageStore:
    """Return the image store of a driver.

    The process has one driver, so a bundle that is loaded twice shares its images.
    """
    with _STORES_LOCK:
        return _STORES.setdefault(driver, ImageStore())
