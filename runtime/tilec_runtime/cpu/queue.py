"""One stream of the cpu device: a queue of work that a thread runs in order."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable

from tilec_runtime.device.layout import ON_CPU
from tilec_runtime.errors import DriverError
from tilec_runtime.kept import copied

# Its argument returns whether the work should stop.
Work = Callable[[Callable[[], bool]], None]
# Seconds after which a thread without work ends.
_LINGER = 0.5
# Failures that a queue keeps after reporting them.
_FAILURES = 64
# Seconds after which a thread that waits for an event checks whether to stop.
_PATIENCE = 0.05
_QUEUES: weakref.WeakSet[Queue] = weakref.WeakSet()
# Not empty once the process ends; no queue starts a thread after that. In Python 3.10, a thread
# that starts or waits for the GIL during finalization uses freed memory, and the process may crash.
_OVER: list[bool] = []


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Task:
    """Work, and whether it runs even after earlier work failed."""

    work: Work
    always: bool


class Queue:
    """The work of one stream.

    The queue keeps the first error until `wait` or `check` reports it. Until then it drops the work
    queued after the failed work. If the queue is deleted or the process ends before the report, the
    error becomes a RuntimeWarning.

    The thread ends with the process. A thread that calls `put` after that runs the work itself.

    Attributes:
        name: name of the stream, for messages.
    """

    def __init__(self, name: str) -> None:
        """Start empty; the stream's name is for messages and for the thread."""
        self.name = name
        self._changed = (
            threading.Condition()
        )  # reentrant: garbage collection inside may enqueue the release of a buffer
        self._tasks: collections.deque[_Task] = collections.deque()
        self._thread: threading.Thread | None = (
            None  # runs the work: the queue's own, or at the end of the process the caller's
        )
        self._own: threading.Thread | None = None  # the last thread that the queue started
        self._ended = bool(_OVER)  # whether starting threads is forbidden
        self._error: BaseException | None = None
        self._put = 0
        self._done = 0
        self._given_up = 0  # drop work up to this number
        self._retired = False  # the stream was destroyed: a thread without work ends at once
        self._busy = False  # whether work without `always` is running
        # Errors of work that failed, or was dropped after a failure. Later events read them even
        # after the error was reported. They are copies, since a raised error keeps the frames of
        # its callers alive.
        self._failures: collections.deque[tuple[int, BaseException]] = collections.deque(
            maxlen=_FAILURES
        )
        _QUEUES.add(self)

    def __del__(self) -> None:
        """Report an unreported error."""
        if (
            self._error is not None and not sys.is_finalizing()
        ):  # `end_all` has reported it at the end of the process
            self.report()

    def put(self, work: Work, *, always: bool = False) -> int:
        """Enqueue work and return its number.

        Args:
            work: runs on the queue's thread; `wait` raises its error.
            always: run it even after earlier work failed.

        Raises:
            DriverError: the process cannot start another thread. The work is not enqueued.
        """
        task = _Task(work=work, always=always)
        with self._changed:
            self._tasks.append(task)
            self._put += 1
            number = self._put  # read now: garbage collection below may enqueue more
            if self._thread is not None:
                self._changed.notify_all()
                return number
            if not self._ended:
                try:
                    self._start()
                except RuntimeError as error:
                    if self._tasks and self._tasks[-1] is task:
                        self._tasks.pop()
                        self._put -= 1
                    raise _no_thread(self.name, error) from error
                return number
            self._thread = threading.current_thread()
        self._run()
        return number

    def check(self) -> None:
        """Raise the unreported error, or do nothing without one."""
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise error

    def wait(self, number: int | None = None) -> None:
        """Wait for the work up to this number (by default all queued work), then `check`.

        An interrupt (Ctrl-C) cancels all of the work.

        Raises:
            DriverError: the interpreter is being finalized, and no thread does this work.
        """
        if (
            threading.current_thread() is self._thread
        ):  # this thread may drop the last reference of a buffer, whose release waits
            return
        try:
            done = self.wait_for(self.position if number is None else number)
        except BaseException:
            self.give_up()
            raise
        self.check()
        if not done:
            raise _never_done(self.name)

    def wait_for(self, number: int, seconds: float | None = None) -> bool:
        """Wait until work is done or has failed, for a limited time; return whether it is.

        During finalization of the interpreter it returns False at once, since no other thread runs.
        """
        last = None if seconds is None else time.monotonic() + seconds
        while not self.done(number):
            if sys.is_finalizing():
                return False
            with self._changed:
                left = None if last is None else last - time.monotonic()
                if not self._changed.wait_for(lambda: self._done >= number, left):
                    return False
        return True

    def refuse_own(self, number: int) -> None:
        """Check that the current thread may wait for the work of this number.

        Raises:
            RuntimeError: it is the queue's thread, which would wait for itself. It is not a
                TilecError, which would report the result of finished work.
        """
        if not self.done(number) and threading.current_thread() is self._thread:
            message = f"work on {self.name} waits for work behind it on the same stream, which would be for ever"
            cause = "a function that the stream calls (`output`, an observer, an object's `__del__`) reads a tensor or waits for an op"
            raise RuntimeError(
                f"{message}\n  cause: {cause}\n  fix: wait on the thread that enqueued the work"
            )

    def done(self, number: int) -> bool:
        """Return whether the work of this number is done."""
        return self._done >= number

    @property
    def idle(self) -> bool:
        """Whether nothing is queued or running."""
        return self._done == self._put

    @property
    def unfinished(self) -> int:
        """Number of queued or running items without `always`; 0 if they were cancelled."""
        with self._changed:
            if self._given_up == self._put:
                return 0
            return self._busy + sum(not task.always for task in self._tasks)

    @property
    def failure(self) -> BaseException | None:
        """The unreported error, or None."""
        return self._error

    @property
    def position(self) -> int:
        """The number of the last enqueued work."""
        return self._put

    def failed_since(self, position: int) -> BaseException | None:
        """Return the first error of work enqueued after this position, or None."""
        with self._changed:
            failure = next((error for number, error in self._failures if number > position), None)
        return None if failure is None else copied(failure)

    def forgive(self, error: BaseException) -> None:
        """Mark an error as reported."""
        with self._changed:
            if self._error is error:
                self._error = None

    def give_up(self) -> None:
        """Drop queued work, and ask running work to stop. Releases of memory still run."""
        with self._changed:
            self._given_up = self._put

    def retire(self) -> None:
        """End the thread after its work, since its stream was destroyed.

        Programs with many short-lived streams would otherwise have too many threads.
        """
        with self._changed:
            self._retired = True
            self._changed.notify_all()

    def end(self) -> None:
        """Drop queued work at the end of the process; the thread then ends."""
        with self._changed:
            self._ended, self._given_up = True, self._put
            self._changed.notify_all()

    def join_thread(self, seconds: float) -> None:
        """Wait until the queue's own thread has ended, for a limited time."""
        if self._own is not None and self._own is not threading.current_thread():
            self._own.join(max(seconds, 0.0))

    def report(self, unfinished: int = 0) -> None:
        """Warn of an unreported error, or of cancelled work.

        It takes no lock, since the queue may be in deletion.
        """
        error, self._error = self._error, None
        if error is not None:
            _warn(f"work on {self.name} failed, and nobody waited for it: {error}")
        elif unfinished:
            fix = 'wait before the end, with sync() of the stream or Device("cpu").sync()'
            _warn(
                f"the process ended while {self.name} had work (launches and copies: {unfinished}): given up\n  fix: {fix}"
            )

    def forget(self) -> None:
        """Drop the error, which the parent process reports."""
        self._error = None

    def _start(self) -> None:
        # A daemon: the end of the process does not wait for work that no thread waits for.
        thread = threading.Thread(target=self._run, name=f"tilec {self.name}", daemon=True)
        if (
            self._thread is not None
        ):  # garbage collection has started a thread meanwhile; two would both count `_done`
            return
        self._thread = self._own = thread
        try:
            thread.start()
        except BaseException:
            if not thread.is_alive():
                self._thread = self._own = None
            raise

    def _run(self) -> None:
        while (task := self._next()) is not None:
            number = self._done + 1
            behind = self._error
            dropped = not task.always and (behind is not None or number <= self._given_up)
            error = None if dropped else self._do(task.work, number)
            del task  # release its arguments before other threads see that it is done
            with self._changed:
                if error is not None and number > self._given_up:
                    self._error = error if self._error is None else self._error
                    self._note(number, error)
                elif dropped and behind is not None:
                    self._note(number, behind)
                self._done, self._busy = number, False
                self._changed.notify_all()
            del error, behind

    def _do(self, work: Work, number: int) -> BaseException | None:
        """Run work and return its error, or None."""
        try:
            work(lambda: number <= self._given_up)
        except BaseException as error:  # noqa: BLE001 - the thread that waits raises it
            return error
        return None

    def _note(self, number: int, error: BaseException) -> None:
        with contextlib.suppress(
            Exception
        ):  # out of memory: later events then miss the error, but no thread waits forever
            self._failures.append((number, copied(error)))

    def _next(self) -> _Task | None:
        """Return the oldest work, or None after some time without work.

        None ends the thread.
        """
        with self._changed:
            if not self._tasks:
                self._changed.wait_for(
                    lambda: bool(self._tasks) or self._retired or self._ended, _LINGER
                )
            if self._tasks:
                task = self._tasks.popleft()
                self._busy = not task.always
                return task
            self._thread = None
            return None


def end_all(patience: float) -> None:
    """Cancel all work at the end of the process, and warn of unreported errors.

    Waits at most `patience` seconds for work to stop and threads to end.
    """
    _OVER.append(True)
    queues = [(queue, queue.unfinished) for queue in list(_QUEUES)]
    for queue, _ in queues:
        queue.end()
    last = time.monotonic() + patience
    for queue, _ in queues:
        queue.join_thread(last - time.monotonic())
    for queue, unfinished in queues:
        queue.report(unfinished)


class QueueEvent:
    """A position in a queue's work; the base of events.

    Attributes:
        time: time at which it was reached, in seconds of a monotonic clock; None before.
        error: error of earlier work: one that was unreported when the event was reached, or one of
            work after `since`.
    """

    def __init__(self, queue: Queue, since: int | None = None) -> None:
        """Set the event behind the queued work.

        `since` is the queue's position before the work whose errors the event reports.
        """
        self.time: float | None = None
        self.error: BaseException | None = None
        self._queue = queue
        self._since = since
        self._number = queue.put(self._reach, always=True)

    @property
    def reached(self) -> bool:
        """Whether all work before it is done."""
        return self._queue.done(self._number)

    def wait(self, given_up: Callable[[], bool]) -> None:
        """Wait until the event is reached, or the wait is cancelled.

        Raises:
            RuntimeError: the caller is the queue's own thread, and work before the event is not
                done.
            DriverError: as for `Queue.wait`.
        """
        self._queue.refuse_own(self._number)
        while not self._queue.wait_for(self._number, _PATIENCE) and not given_up():
            if sys.is_finalizing():
                raise _never_done(self._queue.name)

    def take_error(self) -> BaseException | None:
        """Return `error` to a caller that handles it."""
        error = self.error
        if error is not None:
            self._queue.forgive(error)
            self.error = copied(error)  # later waits for the event raise the copy
        return error

    def follow(self, given_up: Callable[[], bool]) -> None:
        """Wait like `wait`, and raise the error of the work before the event."""
        self.wait(given_up)
        if self.error is not None:
            raise copied(self.error)

    def _reach(self, _: Callable[[], bool]) -> None:
        self.error = self._queue.failure
        if self.error is None and self._since is not None:
            self.error = self._queue.failed_since(self._since)
        self.time = time.perf_counter()


def _no_thread(name: str, error: RuntimeError) -> DriverError:
    message = f"no thread can be started for {name}: {error}"
    cause = "the process has as many threads as it may, or it ends"
    fix = "end threads that are not needed, raise the limit (ulimit -u, or the container's), or use fewer streams at a time"
    return DriverError(
        message, result="CUDA_ERROR_OPERATING_SYSTEM", code=304, cause=cause, fix=fix, device=ON_CPU
    )


def _never_done(name: str) -> DriverError:
    message = f"the process ends while {name} has work that does not stop: it will not be done"
    cause = "an object's `__del__` waits for it when the interpreter is taken apart, and no other thread runs any more"
    return DriverError(
        message,
        result="CUDA_ERROR_DEINITIALIZED",
        code=4,
        cause=cause,
        fix="wait before the process ends",
        device=ON_CPU,
    )


def _warn(text: str) -> None:
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    except RuntimeWarning as warning:  # warnings may be configured as errors; no caller catches one
        sys.stderr.write(f"RuntimeWarning: {warning}\n")
