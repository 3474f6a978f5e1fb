"""The base of all calls of the CUDA driver: start, contexts, results as errors."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from tilec_runtime.device.layout import device_words
from tilec_runtime.device.lost import Losses
from tilec_runtime.errors import ContextLostError, DriverError, NoDeviceError

_NO_DEVICE = 100
# The drivers that were started in this process.
_STARTED: weakref.WeakSet[Calls] = weakref.WeakSet()


class Calls:
    """Calls of libcuda in the devices' primary contexts, which torch and CuPy share."""

    def __init__(self, api: Any) -> None:
        """Start the driver API.

        Args:
            api: a `Libcuda`, or a test double.
        """
        self._api = api
        self._lock = threading.Lock()
        # By ordinal. A lost context is not here, so that `_context` reports the loss.
        self._contexts: dict[int, int] = {}
        self._ordinals: dict[int, int] = {}  # by context, including lost ones
        self._losses = Losses()
        # The driver reads this variable at its start too.
        self._blocking = os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0")
        if result := api.cuInit(0)[0]:
            raise self._no_device("cuInit", result)
        self._count: int = self._ask("cuDeviceGetCount")
        if self._count == 0:
            raise self._no_device("cuDeviceGetCount", _NO_DEVICE)
        _STARTED.add(self)

    def refuse_all(self) -> None:
        """Refuse later calls in a forked child, where CUDA does not work."""
        from tilec_runtime.device.results import ADVICE

        result = "CUDA_ERROR_NOT_INITIALIZED"
        cause, fix = ADVICE[result]
        self._contexts.clear()
        self._lock = threading.Lock()
        for ordinal in range(self._count):
            message = f"the context of {device_words(ordinal)} is lost since the fork"
            lost = ContextLostError(
                message,
                cause=cause,
                fix=fix,
                device=ordinal,
                result=result,
                code=3,
                since="the fork",
            )
            self._losses.errors.setdefault(ordinal, lost)

    # Contexts

    def current(self, ordinal: int) -> contextlib.AbstractContextManager[None]:
        """Make the device's primary context current for a block.

        Do nothing if it is current already; this check is cheaper than a push and a pop.
        """
        context = self._context(ordinal)
        result, current = self._api.cuCtxGetCurrent()
        if not result and self._ordinals.get(current) == ordinal:
            return contextlib.nullcontext()
        return self._pushed(context)

    def adopt(self, ordinal: int) -> None:
        """Set the context of device 0 in a thread that has none, permanently.

        The CUDA runtime does so too. Do nothing for another device: with its context, torch and
        CuPy would allocate their next arrays there. Calls for another device set its context each
        time.
        """
        if ordinal == 0 and not self._ask("cuCtxGetCurrent"):
            self._ask("cuCtxSetCurrent", self._context(ordinal))

    @contextlib.contextmanager
    def _pushed(self, context: int) -> Iterator[None]:
        self._ask("cuCtxPushCurrent", context)
        try:
            yield
        except BaseException:
            self._api.cuCtxPopCurrent()  # ignore its result: an error is being raised already
            raise
        self._ask("cuCtxPopCurrent")

    def _device(self, ordinal: int) -> int:
        if not 0 <= ordinal < self._count:
            message = (
                f"there is no device {ordinal}: this process sees {self._count}, numbered from 0"
            )
            from tilec_runtime.device.results import ADVICE

            raise NoDeviceError(message, fix=ADVICE["CUDA_ERROR_INVALID_DEVICE"][1])
        device: int = self._ask("cuDeviceGet", ordinal)
        return device

    def _context(self, ordinal: int) -> int:
        """Return the primary context of a device, retained until the process ends.

        Raises:
            ContextLostError: the context is lost.
        """
        context = self._contexts.get(ordinal)
        if context is None:
            self._losses.check(ordinal)
            with self._lock:
                context = self._contexts.get(ordinal)
                if context is None:
                    context = self._ask("cuDevicePrimaryCtxRetain", self._device(ordinal))
                    self._ordinals[context] = ordinal
                    self._contexts[ordinal] = context
        assert context is not None
        return context

    def _some_context(self) -> int | None:
        """Return any device's primary context that exists, made by any library, or None."""
        for ordinal in self._contexts or range(self._count):
            if (
                ordinal in self._contexts
                or self._api.cuDevicePrimaryCtxGetState(self._device(ordinal))[-1]
            ):
                return self._context(ordinal)
        return None

    # Results

    def _ask(self, call: str, *arguments: Any) -> Any:
        """Make one driver call and return its value; raise an error if it fails."""
        result, *values = getattr(self._api, call)(*arguments)
        if result:
            raise self._error(call, result)
        return values[0] if values else None

    def _error(
        self, call: str, result: int, *, kernel: str = "", ordinal: int | None = None
    ) -> DriverError:
        where = self._current_device() if ordinal is None else ordinal
        error = self._losses.failed(
            where,
            call,
            self._name(result),
            result,
            words=self._words("cuGetErrorString", result),
            kernel=kernel,
            blocking=bool(kernel) and self._blocking,
        )
        if isinstance(error, ContextLostError) and where is not None:
            self._contexts.pop(where, None)
        return error

    def _current_device(self) -> int | None:
        """Return the device of this thread's current context, or None if unknown."""
        result, *contexts = self._api.cuCtxGetCurrent()
        if not result and not contexts[0] and len(self._ordinals) == 1:
            # The thread has no context, and only one device is in use.
            return next(iter(self._ordinals.values()))
        return None if result else self._ordinals.get(contexts[0])

    def _name(self, result: int) -> str:
        """Return the name of a result, or its number if the driver does not know it."""
        return self._words("cuGetErrorName", result) or f"CUDA result {result}"

    def _words(self, call: str, result: int) -> str:
        text = getattr(self._api, call)(result)[1]
        return text.decode("utf-8", "replace") if text else ""

    def _is_final(self, result: int) -> bool:
        """Whether every later call on the device fails after this result."""
        if not result:
            return False
        from tilec_runtime.device.results import STICKY

        return self._name(result) in STICKY

    def _give_back(self, ordinal: int, call: str, *arguments: Any) -> None:
        """Make a call that destroys or frees, unless the context is lost."""
        if ordinal not in self._losses:
            with self.current(ordinal):
                self._ask(call, *arguments)

    def _no_device(self, call: str, result: int) -> NoDeviceError | DriverError:
        from tilec_runtime.device.results import ADVICE, NO_DEVICE

        name = self._name(result)
        if name not in NO_DEVICE:
            return self._error(call, result)
        cause, fix = ADVICE.get(
            name,
            (
                "the driver library is a stub, or the device is in use by another process",
                "look at nvidia-smi",
            ),
        )
        fix = f'{fix}; tile kernels run without a GPU: load("cpu")'
        return NoDeviceError(f"no NVIDIA GPU can be used: {call} gave {name}", cause=cause, fix=fix)


def _forked() -> None:
    for driver in list(_STARTED):
        driver.refuse_all()


os.register_at_fork(after_in_child=_forked)


def no_driver(error: BaseException) -> NoDeviceError:
    return NoDeviceError(
        f"the CUDA driver (libcuda) cannot be loaded: {error}",
        cause="no NVIDIA driver is installed on this machine, or this container was started without its GPU",
        fix="install the NVIDIA driver, or start the container with its GPU (--gpus all); building and inspecting need no driver, "
        'nor does the cpu device, which runs tile kernels: load("cpu"), or use_device("cpu") around ops',
    )
