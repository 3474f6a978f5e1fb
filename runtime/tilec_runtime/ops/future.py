"""DeviceFuture: the result of an enqueued op, which threads and tasks await."""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import sys
import time
from collections.abc import Callable, Generator
from typing import Any, TypeVar, final

from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.device.lines import RecordedEvent
from tilec_runtime.errors import NestedExecutionError, TilecError, UsedOpError
from tilec_runtime.ops.base import Op, label
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.execution import enqueue
from tilec_runtime.ops.policy import current_policy, stream_of
from tilec_runtime.protocols import SchedulingPolicy
from tilec_runtime.values import Uncopied

T = TypeVar("T")
# An enqueued op: its result, its context with the objects it keeps, and the event behind its work.
Work = tuple[T, ExecutionContext, RecordedEvent]
_LOG = logging.getLogger("tilec_runtime")
# Seconds for which `await op` polls: a small op is done before a completion thread wakes up.
_SPIN = 20e-6


class _Callback:
    """Settles a future on a completion thread.

    Once a caller has settled the future, the callback drops it and so its arguments, because the
    thread may wake up much later.

    Attributes:
        label: the op with its call site.
    """

    __slots__ = ("future", "label")

    def __init__(self, future: DeviceFuture[Any]) -> None:
        self.future: DeviceFuture[Any] | None = future
        self.label = future.label

    def __call__(self, error: BaseException | None) -> None:
        future = self.future
        if future is not None:
            future._settle(error)  # noqa: SLF001 - the callback is a part of the future


@final
class DeviceFuture(concurrent.futures.Future[T], Uncopied):
    """The result of an enqueued op.

    Dropping the future, or cancelling the task that awaits it, does not stop the work. The
    arguments live until the device is done, and are returned then (in `result`, or to their
    memory's pool).

    It is a running `concurrent.futures.Future`, which cannot be cancelled. An error that no caller
    has read when the future is finalized is logged (`tilec_runtime`), unless a task that awaited it
    was cancelled.

    Attributes:
        label: the op with its call site, for messages.
    """

    def __init__(self, op: Op[T]) -> None:
        """Use `DeviceOp.future` or `DeviceOp.schedule`."""
        super().__init__()
        self.set_running_or_notify_cancel()
        self.label = op.label
        self._work: Work[T] | None = None  # until it is settled
        self._callback: _Callback | None = None
        self._heard = False  # whether a caller got the outcome, or its task was cancelled

    def __del__(self) -> None:
        """Log an error that no caller has read."""
        if self.__dict__.get("_heard", True) or sys.is_finalizing() or not super().done():
            return
        error = super().exception()
        if error is not None:
            _LOG.error(
                "%s failed, and nobody asked its future: %s", self.label, error, exc_info=error
            )

    def done(self) -> bool:
        """Return whether the device is done, successfully or not, without waiting."""
        work = self._work
        if work is not None and _reached(work[2]):
            self._settle(_failure(work[2]))
        return super().done()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the device, and return the op's result.

        Args:
            timeout: most seconds to wait; None for no limit.

        Raises:
            TimeoutError: the device is not done by then.
            BaseException: the op's error.
        """
        self.exception(timeout)
        try:
            return super().result()
        finally:
            del self  # break the cycle of error, traceback and frame, which would keep memory

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait as `result` does; return the op's error, or None if it succeeded."""
        work = self._work
        if timeout is None and work is not None:  # sooner than a completion thread would wake up
            with contextlib.suppress(TilecError):  # `_failure` returns it
                work[2].sync()
            self._settle(_failure(work[2]))
        del work
        try:
            error = super().exception(timeout)
        except concurrent.futures.TimeoutError:
            raise TimeoutError(
                f"the device is not done with {self.label} after {timeout} s"
            ) from None
        self._heard = True
        return error

    def __await__(self) -> Generator[Any, None, T]:
        """Let other tasks run until the device is done, under asyncio, trio or anyio."""
        if not self.done():
            try:
                yield from _wait(self).__await__()
            except BaseException:  # cancelled: the error need not be logged
                self._heard = True
                raise
        try:
            return self.result()
        finally:
            del self  # breaks a cycle, see `result`

    def __repr__(self) -> str:
        """Show the state, and the op with its call site."""
        state = "running" if not super().done() else "failed" if super().exception() else "done"
        return f"<DeviceFuture {state}: {self.label}>"

    def _begin(self, work: Work[T], stream: int) -> None:
        """Let a completion thread hold this future until the work is done.

        The future holds the arguments.
        """
        self._work = work
        self._callback = _Callback(self)
        COMPLETIONS.watch(work[2], stream, self._callback)

    def _settle(self, error: BaseException | None) -> None:
        """Set the outcome of the work, unless another caller has done so."""
        with self._condition:
            work, self._work = self._work, None
        if work is None:
            return
        if self._callback is not None:
            self._callback.future = None
        if error is None:
            self.set_result(work[0])
            return
        label(error, self.label)
        del work  # and the objects kept for the device
        self.set_exception(error)


def awaited(op: Op[T]) -> Generator[Any, None, T]:
    """Enqueue an op and let other tasks run until it is done.

    For small ops, poll first.
    """
    stream = stream_of(current_policy())
    work = enqueue(op, stream)
    event = work[2]
    try:
        reached = _spin(event)
    except BaseException:  # Ctrl-C
        work[1].leave(event)
        raise
    if reached:
        error = _failure(event)
        if error is None:
            return work[0]
        label(error, op.label)
        try:
            raise error
        finally:
            del work, error  # breaks a cycle, see `DeviceFuture.result`
    future = DeviceFuture(op)
    future._begin(work, stream.handle)  # noqa: SLF001 - same module
    del work
    return (yield from future.__await__())


def start(op: Op[T], policy: Callable[[], SchedulingPolicy]) -> DeviceFuture[T]:
    """Enqueue an op on a stream of a policy; return its future.

    Args:
        op: the op.
        policy: returns the policy.

    Raises:
        UsedOpError: it was used before.
        NestedExecutionError: this thread executes another op. Every other error is in the future.
    """
    # A list, from which the future is popped in the end: an error keeps this frame, and the future
    # keeps its error.
    futures = [DeviceFuture(op)]
    try:
        stream = stream_of(policy())
        futures[0]._begin(enqueue(op, stream), stream.handle)  # noqa: SLF001 - same module
    except Exception as error:
        ours = isinstance(error, (UsedOpError, NestedExecutionError)) and not error.op
        if ours:  # it is about this op, not about an op inside of it
            raise
        futures[0].set_exception(error)
    return futures.pop()


async def _wait(future: DeviceFuture[Any]) -> None:
    """Let other tasks of the running loop run until a future is done.

    The loop is trio's or asyncio's.
    """
    trio = sys.modules.get("trio")
    event: Any = None
    if trio is not None:
        with contextlib.suppress(RuntimeError):  # trio does not run here
            call_soon = trio.lowlevel.current_trio_token().run_sync_soon
            event = trio.Event()
    if event is None:
        import asyncio  # already imported by programs that await

        call_soon, event = asyncio.get_running_loop().call_soon_threadsafe, asyncio.Event()

    def wake(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, so no task waits
            call_soon(event.set)

    future.add_done_callback(wake)
    await event.wait()


def _spin(event: RecordedEvent) -> bool:
    """Poll an event briefly; return whether it was reached.

    Poll once only if other tasks wait for the device: they should run meanwhile.
    """
    reached = _reached(event)
    if not reached and not COMPLETIONS.busy:
        end = time.perf_counter() + _SPIN
        while not reached and time.perf_counter() < end:
            reached = _reached(event)
    return reached


def _reached(event: RecordedEvent) -> bool:
    try:
        return event.reached
    except TilecError:  # the device is lost
        return True


def _failure(event: RecordedEvent) -> BaseException | None:
    try:
        return event.failure
    except TilecError as lost:
        return lost
