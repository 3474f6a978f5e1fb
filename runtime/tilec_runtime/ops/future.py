"""DeviceFuture: an op that was enqueued, whose result threads and tasks can wait for."""

from __future__ import annotations

import atexit
import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Generator
from typing import Any, Generic, NamedTuple, TypeVar, cast, final

from tilec_runtime.completion import COMPLETIONS
from tilec_runtime.errors import CallError, NestedExecutionError, TilecError, UsedOpError
from tilec_runtime.kept import let_go, without_frames
from tilec_runtime.marks import Mark
from tilec_runtime.ops.execution import Execution, refuse_nested, submit
from tilec_runtime.ops.op import DeviceOp, require_function
from tilec_runtime.ops.policy import SchedulingPolicy, current_policy, stream_of
from tilec_runtime.ops.site import label
from tilec_runtime.scalars import is_number, shown
from tilec_runtime.sites import created
from tilec_runtime.uncopied import Uncopied

T = TypeVar("T")
_LOG = logging.getLogger("tilec_runtime")
# Seconds for which a task that awaits asks by itself: small ops are done sooner than a thread wakes up.
_SPIN = 20e-6
# Set once the process ends: what fails from then on is nobody's to be told.
_ENDING: list[bool] = []
atexit.register(_ENDING.append, True)  # called before that of `COMPLETIONS`, which was registered earlier, waits for the device


class _Failed(NamedTuple):
    """What an op came to that has no result."""

    error: BaseException


class _Done(NamedTuple):
    """The result of an op."""

    value: Any


class _Callback:
    """Completes a future. It keeps the future, and so its arguments, until the device is done, and not until the completion thread wakes
    up: a caller of `result` may have dropped the result by then.
    """

    __slots__ = ("future",)

    def __init__(self, future: DeviceFuture[Any]) -> None:
        self.future: DeviceFuture[Any] | None = future

    @property
    def label(self) -> str:
        """The op with its place."""
        future = self.future
        return "" if future is None else future.label

    def __call__(self, error: BaseException | None) -> None:
        future = self.future
        if future is not None:
            future._finish(error)  # noqa: SLF001 - the two are one thing


@final
class DeviceFuture(Uncopied, Generic[T]):
    """The result of an op that was enqueued. Whoever drops it, or cancels the task that awaits it, leaves the work as it is:
    its arguments live until the device is done, and are given back then (to `result`, or to their memory's pool).

    An error that nobody asked for by the time the future goes is logged (`tilec_runtime`), unless a task that awaited it was cancelled.
    """

    def __init__(self, op: DeviceOp[T]) -> None:
        """Made by `DeviceOp.future` and `DeviceOp.schedule`."""
        self._named = (op.name, op.created)
        self._unwatched: int | None = None  # the stream, as long as no completion thread has this
        self._lock = threading.RLock()
        self._changed: threading.Condition | None = None  # made by the first who waits: most futures are asked once they are done
        self._outcome: _Failed | _Done | None = None
        self._execution: Execution[T] | None = None
        self._callbacks: list[Callable[[DeviceFuture[T]], object]] = []
        self._watched: _Callback | None = None
        self._heard = False  # somebody was told of the outcome, or does not want to be

    @property
    def label(self) -> str:
        """The op with its place, as errors show them."""
        return created(*self._named)

    def __del__(self) -> None:
        """Tell of an error that nobody asked for."""
        outcome = self.__dict__.get("_outcome")
        if outcome is None or self._heard or _Failed is None:  # names of this module may have gone when a process ends
            return
        if isinstance(outcome, _Failed) and not (_ENDING or sys.is_finalizing()):
            _LOG.error("%s failed, and nobody asked its future: %s", self.label, outcome.error, exc_info=outcome.error)

    def done(self) -> bool:
        """Whether the device is done, well or not. Does not wait."""
        if self._outcome is None:
            execution = self._execution
            if execution is not None and _reached(execution.mark):
                self._look(execution.mark)
        return self._outcome is not None

    def result(self, timeout: float | None = None) -> T:
        """The op's result, once the device is done.

        Args:
            timeout: most seconds to wait; None for as long as it takes.

        Raises:
            TimeoutError: the device is not done by then. CallError: these are no seconds.
            BaseException: what the op came to.
        """
        if timeout is not None:
            timeout = _seconds(timeout)
        self._wait(timeout)
        try:
            return self._give()
        finally:
            del self  # an error's traceback has this frame, and the future has the error: memory would wait for the collector

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the op came to; None for a result. Waits as `result` does."""
        try:
            self.result(timeout)
        except BaseException as error:
            if not (isinstance(self._outcome, _Failed) and self._outcome.error is error):  # the wait was ended, not the op
                raise
        return self._outcome.error if isinstance(self._outcome, _Failed) else None

    def add_done_callback(self, function: Callable[[DeviceFuture[T]], object]) -> None:
        """Call a function with this future once the device is done: at once where it is, else on a completion thread.

        It should be short, and wait for nothing. What it raises is logged.

        Raises:
            CallError: it is no function, or one that gives a coroutine.
        """
        require_function("add_done_callback", function)
        with self._lock:
            if self._outcome is None:
                self._callbacks.append(function)
                return
        _call(function, self)

    def __await__(self) -> Generator[Any, None, T]:
        """Let other tasks run until the device is done. Under asyncio, trio, and anyio on either."""
        try:
            self._spin()
        finally:
            self._watch()
        if self._outcome is None:
            trio = sys.modules.get("trio")
            under_trio = trio is not None and _under_trio(trio)
            try:
                yield from (_trio_wait(trio, self) if under_trio else _asyncio_wait(self)).__await__()
            except BaseException:  # cancelled: nobody wants to know any more
                self._heard = True
                raise
        try:
            return self._give()
        finally:
            del self  # as in `result`

    def __repr__(self) -> str:
        """State, and the op with its place."""
        state = "running" if self._outcome is None else "failed" if isinstance(self._outcome, _Failed) else "done"
        return f"<DeviceFuture {state}: {self.label}>"

    def _wait(self, timeout: float | None) -> None:
        execution = self._execution
        if timeout is None and execution is not None:  # sooner than a completion thread would wake up
            with contextlib.suppress(TilecError):  # told by the mark's failure
                execution.mark.sync()
            self._look(execution.mark)
        if self._outcome is not None:
            return
        with self._lock:
            changed = self._changed = self._changed or threading.Condition(self._lock)
            if not changed.wait_for(lambda: self._outcome is not None, timeout):
                raise TimeoutError(f"the device is not done with {self.label} after {timeout} s")

    def _give(self) -> T:
        outcome, self._heard = self._outcome, True
        if not isinstance(outcome, _Failed):
            assert outcome is not None
            return cast("T", outcome.value)
        try:
            raise outcome.error.with_traceback(None)  # each raise adds the frames of whoever asks
        finally:
            del outcome, self  # as in `result`

    def _spin(self) -> None:
        end = time.perf_counter() + (0.0 if COMPLETIONS.busy else _SPIN)  # where others wait for the device, they have something to do
        while not self.done() and time.perf_counter() < end:
            pass

    def _begin(self, execution: Execution[T], stream: int, *, watch: bool) -> None:
        self._execution = execution
        self._unwatched = stream
        if watch:
            self._watch()

    def _watch(self) -> None:
        """Let a completion thread have this future until the work is done: with its value, the arguments."""
        stream, self._unwatched = self._unwatched, None
        execution = self._execution
        if stream is not None and execution is not None:
            self._watched = _Callback(self)
            COMPLETIONS.watch(execution.mark, stream, self._watched)

    def _look(self, mark: Mark) -> None:
        try:
            error = mark.failure
        except TilecError as lost:
            error = lost
        self._finish(error)

    def _finish(self, error: BaseException | None) -> None:
        """Take what the work came to; the first who knows does it."""
        with self._lock:
            if self._outcome is not None:
                return
            execution, self._execution = self._execution, None
            if error is not None:
                label(error, self.label)
                self._outcome = _Failed(error)
            elif execution is not None:
                execution.mark.done = True
                self._outcome = _Done(execution.value)
            if self._watched is not None:
                self._watched.future = None
            callbacks, self._callbacks = self._callbacks, []
            if self._changed is not None:
                self._changed.notify_all()
        del execution  # with what was kept for the device
        interrupts: list[BaseException] = []
        for function in callbacks:
            try:
                _call(function, self)
            except BaseException as interrupt:  # noqa: BLE001 - Ctrl-C, or the end of a program: after the others
                interrupts.append(interrupt)
        if interrupts:
            raise interrupts[0]


def awaited(op: DeviceOp[T]) -> Generator[Any, None, T]:
    """What `await op` does. Small ops are done before a completion thread need know of them."""
    return (yield from start(op, current_policy, watch=False).__await__())


def start(op: DeviceOp[T], policy: Callable[[], SchedulingPolicy], *, watch: bool = True) -> DeviceFuture[T]:
    """Enqueue an op on a stream of a policy; its future, which has the error where that failed.

    Args:
        op: runs once.
        policy: gives the policy.
        watch: whether a completion thread has it from now on; else whoever awaits it sees to that.

    Raises:
        UsedOpError: it was used before. NestedExecutionError: this thread executes another op.
    """
    refuse_nested(op)
    made = [DeviceFuture(op)]  # taken out of this frame in the end: an error has its frames, and a future its error
    try:
        stream = stream_of(policy())
        made[0]._begin(submit(op, stream, blocking=True), stream.handle, watch=watch)  # noqa: SLF001 - its own module
    except (UsedOpError, NestedExecutionError) as error:
        if not error.op:
            raise
        _fail(made[0], error)  # of an op inside of this one
    except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for the result
        _fail(made[0], error)
    return made.pop()


def _fail(future: DeviceFuture[Any], error: Exception) -> None:
    let_go(error)
    without_frames(error)
    future._finish(error)  # noqa: SLF001 - its own module


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


async def _trio_wait(trio: Any, future: DeviceFuture[Any]) -> None:
    token, task = trio.lowlevel.current_trio_token(), trio.lowlevel.current_task()
    waiting = [True]

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


def _under_trio(trio: Any) -> bool:
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True


def _seconds(timeout: Any) -> float:
    if not is_number(timeout) or timeout != timeout:  # NaN is not itself
        raise CallError(f"the timeout is {shown(timeout)}, and must be a number of seconds", fix="leave it out to wait as long as it takes")
    return min(float(timeout), threading.TIMEOUT_MAX)


def _reached(mark: Mark) -> bool:
    try:
        return mark.reached
    except TilecError:  # the device is lost
        return True


def _call(function: Callable[[DeviceFuture[T]], object], future: DeviceFuture[T]) -> None:
    try:
        function(future)
    except Exception:  # noqa: BLE001 - nobody waits for it
        _LOG.exception("a callback of %r failed", future)
