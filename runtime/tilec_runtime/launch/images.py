"""Loaded images: each is loaded once per device, at its first launch, by whichever thread comes
first.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilec_runtime.device.seam_types import FunctionFacts, FunctionHandle
from tilec_runtime.errors import ContextLostError, DriverError, KernelCacheError, TileIRError
from tilec_runtime.forks import ForkLock
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.jit import JitBy
from tilec_runtime.values import value_class

if TYPE_CHECKING:
    from tilec_runtime.device.seam import DeviceDriver


@value_class(frozen=True, kw_only=True, slots=True)
class Function:
    """An entry point that is ready to launch."""

    handle: FunctionHandle
    facts: FunctionFacts


class ImageStore:
    """The images that one driver has loaded. Images stay loaded as long as the process: kernels may
    still run from them.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._lock = ForkLock()
        self._entries: dict[tuple[Any, ...], _Entry] = {}

    def function(
        self,
        driver: DeviceDriver,
        ordinal: int,
        image: ImageInfo,
        kernel: str,
        code: Callable[[], bytes],
        by: JitBy | None = None,
    ) -> Function:
        """The entry point of an image on a device; loads the image if this is its first use.

        Args:
            driver: what loads it.
            ordinal: the device.
            image: its row of the index.
            kernel: name of its kernel, for messages.
            code: gives the bytes to load: the image's own, or what was compiled of them.
            by: what compiles it.

        Raises:
            KernelCacheError: the driver refuses the image. ContextLostError: nothing works on the
                device any more.
            TileIRError: the cpu device cannot read it.
        """

        def load() -> Any:
            return driver.load_module(ordinal, code())

        def look_up() -> Function:
            module = self._once((ordinal, image.digest, by), load)
            handle = driver.function(module, image.symbol)
            return Function(handle=handle, facts=driver.function_facts(handle))

        try:
            found: Function = self._once((ordinal, image.digest, by, image.symbol), look_up)
        except ContextLostError:  # nothing is wrong with the image
            raise
        except DriverError as error:
            what = f"{kernel}: the image for {image.target} ({image.symbol}) cannot be loaded: {error.what}"
            raise refused(error, what, ordinal, kernel) from error
        except TileIRError as error:
            what = f"{kernel}: the image for {image.target} ({image.symbol}) cannot be run: {error.what}"
            raise TileIRError(what, cause=error.cause, fix=error.fix, kernel=kernel) from error
        return found

    def _once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """The value of `key`, made by the first thread that asks; a failure is not kept."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
        with entry.lock:
            if not entry.made:
                entry.value = make()
                entry.made = True
            return entry.value


class _Entry:
    __slots__ = ("lock", "made", "value")

    def __init__(self) -> None:
        self.lock = ForkLock()
        self.made = False
        self.value: Any = None


def refused(error: DriverError, what: str, ordinal: int, kernel: str = "") -> KernelCacheError:
    """The error of an image, or of an entry point, that the driver of a device did not take."""
    return KernelCacheError(
        what,
        result=error.result,
        code=error.code,
        cause=error.cause,
        fix=error.fix,
        kernel=kernel,
        device=ordinal,
    )


_STORES: weakref.WeakKeyDictionary[DeviceDriver, ImageStore] = weakref.WeakKeyDictionary()
_STORES_LOCK = ForkLock()


def store_of(driver: DeviceDriver) -> ImageStore:
    """The store of a driver: the process has one driver, so bundles that are loaded twice share
    their images.
    """
    with _STORES_LOCK:
        return _STORES.setdefault(driver, ImageStore())
