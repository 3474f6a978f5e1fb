"""DeviceFuture: an op that was enqueued, whose result threads and tasks can wait for."""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import functools
import logging
import sys
import threading
import time
from collections.abc import Callable, Generator
from typing import Any, TypeVar, final

from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.device.marks import Mark
from tilec_runtime.device.scalars import is_number, shown
from tilec_runtime.errors import CallError, NestedExecutionError, TilecError, UsedOpError
from tilec_runtime.kept import without_frames
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.execution import enqueue, label, require_function
from tilec_runtime.ops.policy import current_policy, stream_of
from tilec_runtime.protocols import SchedulingPolicy
from tilec_runtime.running import Runnable, refuse_nested
from tilec_runtime.sites import created
from tilec_runtime.values import Uncopied

T = TypeVar("T")
# An op that was enqueued: its result, what must live until that is ready, and the mark behind it.
Work = tuple[T, ExecutionContext, Mark]
_LOG = logging.getLogger("tilec_runtime")
# Seconds for which `await op` asks by itself: small ops are done sooner than a thread wakes up.
_SPIN = 20e-6
# Set once the process ends: what fails from then on is nobody's to be told.
_ENDING: list[bool] = []
atexit.register(
    _ENDING.append, True
)  # called before that of `COMPLETIONS`, which was registered earlier, waits for the device


class _Callback:
    """Settles a future. It lets go of the future, and so of its arguments, when somebody else has
    settled that: the completion thread may wake up much later.
    """

    __slots__ = ("future",)

    def __init__(self, future: DeviceFuture[Any]) -> None:
        self.future: DeviceFuture[Any] | None = future

    @property
    def label(self) -> str:
        """The op with its call site."""
        future = self.future
        return "" if future is None else future.label

    def __call__(self, error: BaseException | None) -> None:
        future = self.future
        if future is not None:
            future._settle(error)  # noqa: SLF001 - the two are one thing


@final
class DeviceFuture(concurrent.futures.Future[T], Uncopied):
    """The result of an op that was enqueued. Whoever drops it, or cancels the task that awaits it,
    leaves the work as it is: its arguments live until the device is done, and are given back then
    (to `result`, or to their memory's pool).

    It is a `concurrent.futures.Future` that runs, and cannot be cancelled. An error that nobody
    asked for by the time the future goes is logged (`tilec_runtime`), unless a task that awaited it
    was cancelled.
    """

    def __init__(self, op: Runnable[T]) -> None:
        """Made by `DeviceOp.future` and `DeviceOp.schedule`."""
        super().__init__()
        self.set_running_or_notify_cancel()
        self._named = (op.name, op.created)
        self._work: Work[T] | None = None  # until somebody knows what it came to
        self._callback: _Callback | None = None
        self._heard = False  # somebody was told of the outcome, or does not want to be

    @property
    def label(self) -> str:
        """The op with its call site, as errors show them."""
        return created(*self._named)

    def __del__(self) -> None:
        """Log an error that nobody asked for."""
        if (
            self.__dict__.get("_heard", True)
            or _ENDING
            or sys.is_finalizing()
            or not super().done()
        ):
            return
        error = super().exception()
        if error is not None:
            _LOG.error(
                "%s failed, and nobody asked its future: %s", self.label, error, exc_info=error
            )

    def done(self) -> bool:
        """Whether the device is done, well or not. Does not wait."""
        work = self._work
        if work is not None and _reached(work[2]):
            self._settle(_failure(work[2]))
        return super().done()

    def result(self, timeout: float | None = None) -> T:
        """The op's result, once the device is done.

        Args:
            timeout: most seconds to wait; None for as long as it takes.

        Raises:
            TimeoutError: the device is not done by then. CallError: these are no seconds.
            BaseException: what the op came to.
        """
        error = self.exception(timeout)
        try:
            if error is not None:
                raise error.with_traceback(None)  # each raise adds the frames of whoever asks
            return super().result()
        finally:
            del (
                error,
                self,
            )  # an error's traceback has this frame, and the future has the error: memory would wait for the collector

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the op came to; None for a result. Waits as `result` does."""
        work = self._work
        if timeout is not None:
            timeout = _seconds(timeout)
        elif work is not None:  # sooner than a completion thread would wake up
            with contextlib.suppress(TilecError):  # told by the mark's failure
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

    def add_done_callback(self, fn: Callable[[DeviceFuture[T]], object]) -> None:
        """Call a function with this future once the device is done: at once where it is, else on a
        completion thread.

        It should be short, and wait for nothing. What it raises is logged.

        Raises:
            CallError: it is no function, or one that gives a coroutine.
        """
        require_function("add_done_callback", fn)
        super().add_done_callback(functools.partial(_call, fn))

    def __await__(self) -> Generator[Any, None, T]:
        """Let other tasks run until the device is done. Under asyncio, trio, and anyio on either."""
        if not self.done():
            try:
                yield from _waiting(self)
            except BaseException:  # cancelled: nobody wants to know any more
                self._heard = True
                raise
        try:
            return self.result()
        finally:
            del self  # as in `result`

    def __repr__(self) -> str:
        """State, and the op with its call site."""
        state = "running" if not super().done() else "failed" if super().exception() else "done"
        return f"<DeviceFuture {state}: {self.label}>"

    def _begin(self, work: Work[T], stream: int) -> None:
        """Let a completion thread have this future until the work is done: with its value, the
        arguments.
        """
        self._work = work
        self._callback = _Callback(self)
        COMPLETIONS.watch(work[2], stream, self._callback)

    def _settle(self, error: BaseException | None) -> None:
        """Take what the work came to; the first who knows does it."""
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
        del work  # with what was kept for the device
        self.set_exception(error)


def awaited(op: Runnable[T]) -> Generator[Any, None, T]:
    """What `await op` does. Small ops are done before a completion thread need know of them."""
    refuse_nested(op)
    stream = stream_of(current_policy())
    work = enqueue(op, stream)
    mark = work[2]
    try:
        _spin(mark)
    except BaseException:  # Ctrl-C
        work[1].leave(mark)
        raise
    if _reached(mark):
        error = _failure(mark)
        if error is None:
            return work[0]
        label(error, op.label)
        try:
            raise error
        finally:
            del work, error  # as in `DeviceFuture.result`
    future = DeviceFuture(op)
    future._begin(work, stream.handle)  # noqa: SLF001 - its own module
    del work
    return (yield from future.__await__())


def start(op: Runnable[T], policy: Callable[[], SchedulingPolicy]) -> DeviceFuture[T]:
    """Enqueue an op on a stream of a policy; its future, which has the error where that failed.

    Args:
        op: runs once.
        policy: gives the policy.

    Raises:
        UsedOpError: it was used before. NestedExecutionError: this thread executes another op.
    """
    refuse_nested(op)
    made = [
        DeviceFuture(op)
    ]  # taken out of this frame in the end: an error has its frames, and a future its error
    try:
        stream = stream_of(policy())
        made[0]._begin(enqueue(op, stream), stream.handle)  # noqa: SLF001 - its own module
    except (UsedOpError, NestedExecutionError) as error:
        if not error.op:
            raise
        _fail(made[0], error)  # of an op inside of this one
    except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for the result
        _fail(made[0], error)
    return made.pop()


def _fail(future: DeviceFuture[Any], error: Exception) -> None:
    without_frames(error)
    future.set_exception(error)


def _waiting(future: DeviceFuture[Any]) -> Generator[Any, None, None]:
    """Let other tasks of the running loop run until a future is done."""
    trio = sys.modules.get("trio")
    task = None
    if trio is not None:
        with contextlib.suppress(RuntimeError):  # no loop of trio is running here
            task = trio.lowlevel.current_task()
    return (_asyncio_wait(future) if task is None else _trio_wait(trio, task, future)).__await__()


async def _asyncio_wait(future: DeviceFuture[Any]) -> None:
    import asyncio  # whoever awaits has it, and nobody else needs it

    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def wake() -> None:
        if not waiter.done():  # cancelled meanwhile
            waiter.set_result(None)

    def told(_: DeviceFuture[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed by now: nobody waits any more
            loop.call_soon_threadsafe(wake)

    future.add_done_callback(told)
    await waiter


async def _trio_wait(trio: Any, task: Any, future: DeviceFuture[Any]) -> None:
    token, waiting = trio.lowlevel.current_trio_token(), [True]

    def wake() -> None:
        if waiting.pop():
            trio.lowlevel.reschedule(task)
        waiting.append(False)

    def told(_: DeviceFuture[Any]) -> None:
        try:
            token.run_sync_soon(wake)
        except trio.RunFinishedError:
            _LOG.debug("a task that awaited %r is gone", future)

    def abort(_: Any) -> Any:
        waiting[0] = False
        return trio.lowlevel.Abort.SUCCEEDED

    future.add_done_callback(told)
    await trio.lowlevel.wait_task_rescheduled(abort)


def _seconds(timeout: Any) -> float:
    if not is_number(timeout) or timeout != timeout:  # NaN is not itself
        raise CallError(
            f"the timeout is {shown(timeout)}, and must be a number of seconds",
            fix="leave it out to wait as long as it takes",
        )
    return min(float(timeout), threading.TIMEOUT_MAX)


def _spin(mark: Mark) -> None:
    end = time.perf_counter() + (
        0.0 if COMPLETIONS.busy else _SPIN
    )  # where others wait for the device, they have something to do
    while not _reached(mark) and time.perf_counter() < end:
        pass


def _reached(mark: Mark) -> bool:
    try:
        return mark.reached
    except TilecError:  # the device is lost
        return True


def _failure(mark: Mark) -> BaseException | None:
    try:
        return mark.failure
    except TilecError as lost:
        return lost


def _call(function: Callable[[DeviceFuture[T]], object], future: DeviceFuture[T]) -> None:
    try:
        function(future)
    except BaseException as error:
        _LOG.exception("a callback of %r failed", future)  # nobody waits for it
        if (
            not isinstance(error, Exception)
            and threading.current_thread() is threading.main_thread()
        ):  # Ctrl-C
            raise
