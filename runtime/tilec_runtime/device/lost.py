"""Lost contexts: device, failed call, launches that may be the cause.

This module calls no driver.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence

from tilec_runtime.device.layout import device_words
from tilec_runtime.device.seam import LaunchShape
from tilec_runtime.errors import ContextLostError, DriverError

# Most launches that are kept, and most that a message names.
_REMEMBERED, _NAMED = 256, 4
# Functions that return the labels of unfinished ops on a device of a driver. The oldest op of each
# stream comes first.
PENDING: list[Callable[[Losses, int], list[str]]] = []
_AGAIN = (
    "CUDA_LAUNCH_BLOCKING=1 fails at the launch itself, and `tilec sanitize` "
    "looks at tile kernels without a GPU"
)


class Losses:
    """The lost contexts of one driver.

    Attributes:
        errors: the first error of each loss, by the device's ordinal.
    """

    def __init__(self) -> None:
        """Start without losses."""
        self.errors: dict[int, ContextLostError] = {}
        self._suspects: dict[int, collections.deque[str]] = {}

    def __contains__(self, ordinal: int) -> bool:
        """Whether a device's context is lost."""
        return ordinal in self.errors

    def suspect(self, ordinal: int, kernel: str, shape: LaunchShape, stream: int) -> None:
        """Record a kernel that was prepared for launches on a device: it may cause a loss.

        Launches themselves record nothing.
        """
        grid, block = ("x".join(map(str, extents)) for extents in (shape.grid, shape.block))
        launches = self._suspects.setdefault(ordinal, collections.deque(maxlen=_REMEMBERED))
        launches.append(f"{kernel} (grid {grid}, block {block}, stream {stream:#x})")

    def check(self, ordinal: int) -> None:
        """Check that a device's context is not lost.

        Raises:
            ContextLostError: the context is lost.
        """
        if ordinal in self.errors:
            raise self.again(ordinal)

    def failed(
        self,
        ordinal: int | None,
        call: str,
        result: str,
        code: int,
        *,
        words: str = "",
        kernel: str = "",
        blocking: bool = False,
    ) -> DriverError:
        """Return the error of a failed driver call.

        Some results mean that the context is lost.

        Args:
            ordinal: the device, or None if unknown.
            call: the driver's call, or `the launch`.
            result: name of the result.
            code: number of the result.
            words: the driver's own description.
            kernel: the kernel whose launch failed.
            blocking: whether launches wait for their end, so that `kernel` is the cause.
        """
        from tilec_runtime.device.results import (
            KERNEL_FAULTS,
            STICKY,
            advice,
        )  # a long table, read at the first failure only

        cause, fix = advice(result)
        message = f"{kernel}: " if kernel else ""
        message += f"{call} failed: {result}" + (f" ({words})" if words else "")
        if result not in STICKY or ordinal is None:
            return DriverError(
                message,
                result=result,
                code=code,
                cause=cause,
                fix=fix,
                kernel=kernel,
                device=ordinal,
            )
        if ordinal in self.errors:
            return self.again(ordinal, kernel)
        blamed = result in KERNEL_FAULTS
        launches, suspects = (
            self._named(ordinal, kernel if blocking else "") if blamed else ((), "")
        )
        lost = ContextLostError(
            f"{message}: the context of {device_words(ordinal)} is lost",
            cause=f"{cause}{suspects}",
            fix=f"{fix}. {_AGAIN}" if blamed and not blocking else fix,
            kernel=kernel if blocking else "",
            device=ordinal,
            result=result,
            code=code,
            since=call,
            launches=launches,
        )
        self.errors.setdefault(ordinal, lost)
        return lost

    def again(self, ordinal: int, kernel: str = "") -> ContextLostError:
        """Return a new error for a call, or a launch of `kernel`, after the loss.

        Each raise needs its own error, because a traceback grows with each raise.
        """
        first = self.errors[ordinal]
        message = f"{kernel}: " if kernel else ""
        message += f"the context of {device_words(ordinal)} is lost since {first.since} gave {first.result}"
        return ContextLostError(
            f"{message}: nothing works there any more in this process",
            cause=first.cause,
            fix=first.fix,
            kernel=first.kernel,
            device=ordinal,
            result=first.result,
            code=first.code,
            since=first.since,
            launches=first.launches,
            again=True,
        )

    def _named(self, ordinal: int, kernel: str) -> tuple[tuple[str, ...], str]:
        """Return the launches that may be the cause, and the text that lists them."""
        if kernel:
            return (kernel,), f"; launches fail by themselves here, so it was {kernel}"
        launches = tuple(dict.fromkeys(reversed(self._suspects.get(ordinal, ()))))
        if not launches:
            return (
                (),
                "; nothing of tilec was launched there: look at other libraries of this process",
            )
        text = f"; launched there by tilec in this process (newest first): {_first(launches)}"
        ops = [op for pending in PENDING for op in pending(self, ordinal)]
        if ops:
            text += f"; ops that were not done (the first of each stream first): {_first(ops)}"
        return launches, text


def _first(things: Sequence[str]) -> str:
    more = f"; and {len(things) - _NAMED} more" if len(things) > _NAMED else ""
    return "; ".join(things[:_NAMED]) + more
