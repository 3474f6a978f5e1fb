"""A loaded bundle and its images.

The first launch of an image on a device loads it, in any thread.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from tilec_runtime.bundle.choose import Candidate, DeviceFacts
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device.seam import (
    DeviceInfo,
    FunctionFacts,
    FunctionHandle,
    ModuleHandle,
)
from tilec_runtime.errors import ContextLostError, DriverError, KernelCacheError, TileIRError
from tilec_runtime.forks import ForkLock
from tilec_runtime.model.arch import Version
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.jit import JitBy, JitFallback
from tilec_runtime.model.kernel import KernelInfo
from tilec_runtime.values import value_class

if TYPE_CHECKING:
    from tilec_runtime.device.seam import DeviceDriver
    from tilec_runtime.launch.jit import Jit

T = TypeVar("T")


@value_class(frozen=True, kw_only=True)
class LoadedFunction:
    """An entry point that is ready to launch.

    Attributes:
        handle: the driver's handle.
        facts: the driver's facts of it.
        image: the index entry of its image.
        device: the device that it was loaded on.
        driver: the driver that loaded it.
    """

    handle: FunctionHandle
    facts: FunctionFacts
    image: ImageInfo
    device: DeviceInfo
    driver: DeviceDriver


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
    ) -> tuple[FunctionHandle, FunctionFacts]:
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

        def look_up() -> tuple[FunctionHandle, FunctionFacts]:
            module = self._once((ordinal, image.digest, by), load)
            handle = driver.function(module, image.symbol)
            return handle, driver.function_facts(handle)

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


@value_class(frozen=True, kw_only=True)
class Site:
    """A bundle loaded on one device through one driver, with the images loaded there.

    Attributes:
        asked: the caller's or the environment's policy for compiling at load; None leaves it to the
            bundle.
        jit: returns the compiler.
        missing: the machine code that is not installed, as in `DeviceFacts`.
    """

    bundle: Bundle
    device: DeviceInfo
    driver: DeviceDriver
    store: ImageStore
    asked: JitFallback | None
    jit: Callable[[], Jit]
    missing: tuple[tuple[Version, str], ...] = ()

    def facts(self, kernel: KernelInfo) -> DeviceFacts:
        """Return the device's facts for the choice of a kernel's image."""
        device, jit = self.device, self.asked or kernel.jit
        return DeviceFacts(
            cc=device.cc,
            driver=device.driver,
            name=device.name,
            interprets=device.interprets,
            jit=jit,
            missing=self.missing,
        )

    def function(self, taken: Candidate, kernel: KernelInfo, variant: str) -> LoadedFunction:
        """Return the entry point of an image; its first use compiles and loads it.

        Raises:
            BundleError: the bytes of the image are damaged.
            CompileError, MissingError: the image cannot be compiled.
            KernelCacheError: the driver refuses the image.
            TileIRError: the cpu device cannot read the image.
        """
        image, device, driver = taken.image, self.device, self.driver
        code = functools.partial(self.bundle.image, image.digest)
        if taken.jit is not None:
            facts = self.facts(kernel)
            code = functools.partial(self.jit().code, taken, code, facts, variant)
        handle, known = self.store.function(
            driver, device.ordinal, image, kernel.name, code, by=taken.jit
        )
        if taken.jit is not None:
            self.jit().note(taken, variant)
        return LoadedFunction(handle=handle, facts=known, image=image, device=device, driver=driver)
