"""What the parts of the CUDA driver's seam share: its start, the devices' primary contexts, and results that become errors."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from tilec.errors import DriverError, NoDeviceError
from tilec.runtime.results import ADVICE, NO_DEVICE


class Calls:
    """Calls of cuda.bindings. All contexts are the devices' primary ones, which torch and CuPy share."""

    def __init__(self, api: Any) -> None:
        """Start the driver API.

        Args:
            api: the module `cuda.bindings.driver`.
        """
        self._api = api
        self._success = api.CUresult.CUDA_SUCCESS
        self._lock = threading.Lock()
        self._contexts: dict[int, Any] = {}
        try:
            result = api.cuInit(0)[0]
        except (RuntimeError, OSError) as error:  # the bindings find libcuda at their first call
            raise _no_driver(error) from error
        if result != self._success:
            raise self._no_device("cuInit", result)
        self._count = int(self._ask("cuDeviceGetCount"))
        if self._count == 0:
            raise self._no_device("cuDeviceGetCount", api.CUresult.CUDA_ERROR_NO_DEVICE)

    # Contexts

    @contextlib.contextmanager
    def current(self, ordinal: int) -> Iterator[None]:
        """Make the device's primary context current, and restore the thread's own afterwards."""
        with self._pushed(self._context(ordinal)):
            yield

    def adopt(self, ordinal: int) -> None:
        """Give a thread that has no context the device's primary one, for good, as the CUDA runtime does it."""
        if not int(self._ask("cuCtxGetCurrent")):
            self._ask("cuCtxSetCurrent", self._context(ordinal))

    @contextlib.contextmanager
    def _pushed(self, context: Any) -> Iterator[None]:
        self._ask("cuCtxPushCurrent", context)
        try:
            yield
        finally:
            self._ask("cuCtxPopCurrent")

    def _handle(self, ordinal: int) -> Any:
        if not 0 <= ordinal < self._count:
            what = f"there is no device {ordinal}: this process sees {self._count}, numbered from 0"
            raise NoDeviceError(what, fix=ADVICE["CUDA_ERROR_INVALID_DEVICE"][1])
        return self._ask("cuDeviceGet", ordinal)

    def _context(self, ordinal: int) -> Any:
        """The primary context of a device, retained once and kept for the process."""
        found = self._contexts.get(ordinal)
        if found is None:
            with self._lock:
                if ordinal not in self._contexts:
                    self._contexts[ordinal] = self._ask("cuDevicePrimaryCtxRetain", self._handle(ordinal))
                found = self._contexts[ordinal]
        return found

    # Results

    def _ask(self, call: str, *arguments: Any) -> Any:
        """Make one driver call; its value, or its failure as an error."""
        result, *values = getattr(self._api, call)(*arguments)
        if result != self._success:
            raise self._error(call, result)
        return values[0] if values else None

    def _error(self, call: str, result: Any, *, kernel: str = "") -> DriverError:
        name = _result_name(result)
        text = self._api.cuGetErrorString(result)[1]
        words = text.decode("utf-8", "replace") if isinstance(text, bytes) else ""
        cause, fix = ADVICE.get(name, ("", ""))
        subject = f"{kernel}: " if kernel else ""
        what = f"{subject}{call} failed: {name}" + (f" ({words})" if words else "")
        return DriverError(what, result=name, code=int(result), cause=cause, fix=fix, kernel=kernel)

    def _no_device(self, call: str, result: Any) -> NoDeviceError | DriverError:
        name = _result_name(result)
        if name not in NO_DEVICE:
            return self._error(call, result)
        cause, fix = ADVICE.get(name, ("the driver library is a stub, or the device is in use by another process", "look at nvidia-smi"))
        fix = f'{fix}; tile kernels run without a GPU: load("cpu")'
        return NoDeviceError(f"no NVIDIA GPU can be used: {call} gave {name}", cause=cause, fix=fix)


def _result_name(result: Any) -> str:
    return getattr(result, "name", "") or f"CUDA result {int(result)}"


def _no_driver(error: BaseException) -> NoDeviceError:
    return NoDeviceError(
        f"the CUDA driver (libcuda) cannot be loaded: {error}",
        cause="no NVIDIA driver is installed on this machine, or this container was started without its GPU",
        fix="install the NVIDIA driver, or start the container with its GPU (--gpus all); building and inspecting need no driver, "
        'nor does load("cpu"), which runs tile kernels without a GPU',
    )
