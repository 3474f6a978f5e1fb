"""One stream of the cpu device: a queue of work, done in order by a thread."""

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

# Gets a function that says whether the work is to be given up.
Work = Callable[[Callable[[], bool]], None]
# Seconds for which a thread without work waits for more before it ends.
_LINGER = 0.5
# Failures that a queue remembers after it has reported them.
_FAILURES = 64
# Seconds after which a thread that waits for a mark checks whether to give up.
_PATIENCE = 0.05
_QUEUES: weakref.WeakSet[Queue] = weakref.WeakSet()
# Set once the process ends. From then on no queue starts a thread: one that waits for the
# interpreter's lock when that is taken apart, or is just being started, uses memory that the
# interpreter has freed (Python 3.10 does that), and the process may die of it.
_OVER: list[bool] = []


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Task:
    """Work, and whether it is done also behind work that failed."""

    work: Work
    always: bool


class Queue:
    """Work of one stream.

    The queue keeps the first error until `wait` or `check` reports it, and drops work that was
    queued behind it until then. If the queue is deleted or the process ends before that, the error
    becomes a RuntimeWarning.

    When the process ends, the thread ends. A thread that puts work after that does the work itself.

    Attributes:
        name: of the stream, for messages.
    """

    def __init__(self, name: str, pace: Callable[[], None] | None = None) -> None:
        """Start empty.

        Args:
            name: of the stream, for messages and for the thread.
            pace: called on the thread before each work.
        """
        self.name = name
        self._pace = pace
        self._changed = (
            threading.Condition()
        )  # reentrant: a collected buffer may enqueue from inside
        self._tasks: collections.deque[_Task] = collections.deque()
        self._thread: threading.Thread | None = (
            None  # who does the work: the queue's own, or at the end of the process anybody's
        )
        self._own: threading.Thread | None = None  # the thread that was started last
        self._ended = bool(_OVER)  # no thread is started any more
        self._error: BaseException | None = None
        self._put = 0
        self._done = 0
        self._given_up = 0  # work up to this number is dropped
        self._retired = (
            False  # its stream was given back: a thread without work has nothing to wait for
        )
        self._busy = False  # with work that is not done in any case
        # Work that failed, or was dropped behind work that failed. Marks behind it read this also
        # after the error was reported. These are copies: a raised error keeps the frames of its
        # callers, and all that these hold.
        self._failures: collections.deque[tuple[int, BaseException]] = collections.deque(
            maxlen=_FAILURES
        )
        _QUEUES.add(self)

    def __del__(self) -> None:
        """Report an error that was not reported yet."""
        if (
            self._error is not None and not sys.is_finalizing()
        ):  # at the end of the process, `end_all` has told of it
            self.report()

    def put(self, work: Work, *, always: bool = False) -> int:
        """Queue work; its number.

        Args:
            work: runs on the queue's thread; its error is kept for the thread that waits.
            always: run it also where work before it failed.

        Raises:
            DriverError: the process can have no more threads. The work is not queued.
        """
        task = _Task(work=work, always=always)
        with self._changed:
            self._tasks.append(task)
            self._put += 1
            number = self._put  # what the collector puts from inside comes behind
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
        """Raise the error that was not reported yet, if there is one."""
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise error

    def wait(self, number: int | None = None) -> None:
        """Wait for everything that is queued now, or for the work up to this number, then `check`.
        Interrupted (Ctrl-C), all of the work is given up.

        Raises:
            DriverError: the interpreter is being finalized, and no thread does this work.
        """
        if (
            threading.current_thread() is self._thread
        ):  # a buffer's last reference may go on this thread
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
        """Wait until the work of this number is done, well or not, but no longer than this; whether
        it is.

        It returns False at once while the interpreter is finalized: no other thread runs any
        more.
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
        """Check that the thread that will wait for work of this number does not do it.

        Raises:
            RuntimeError: it is the queue's thread, which would wait for ever. No TilecError: those
                tell what work came to that is over.
        """
        if not self.done(number) and threading.current_thread() is self._thread:
            what = f"work on {self.name} waits for work behind it on the same stream, which would be for ever"
            cause = "a function that the stream calls (`output`, an observer, an object's `__del__`) reads a tensor or waits for an op"
            raise RuntimeError(
                f"{what}\n  cause: {cause}\n  fix: wait on the thread that enqueued the work"
            )

    def done(self, number: int) -> bool:
        """Whether the work of this number is done."""
        return self._done >= number

    @property
    def idle(self) -> bool:
        """Whether nothing is queued or running."""
        return self._done == self._put

    @property
    def unfinished(self) -> int:
        """Works that are queued or running, but for those that are done in any case; none where
        they were given up.
        """
        with self._changed:
            if self._given_up == self._put:
                return 0
            return self._busy + sum(not task.always for task in self._tasks)

    @property
    def failure(self) -> BaseException | None:
        """The error that was not reported yet."""
        return self._error

    @property
    def position(self) -> int:
        """The number of the work that was queued last."""
        return self._put

    def failed_since(self, position: int) -> BaseException | None:
        """Return the first error of work that was queued after this position."""
        with self._changed:
            failure = next((error for number, error in self._failures if number > position), None)
        return None if failure is None else copied(failure)

    def forgive(self, error: BaseException) -> None:
        """Mark an error as reported."""
        with self._changed:
            if self._error is error:
                self._error = None

    def give_up(self) -> None:
        """Drop what is queued and ask what is running to stop. Memory is given back all the same."""
        with self._changed:
            self._given_up = self._put

    def retire(self) -> None:
        """Its stream was given back: the thread ends with its work. A thread for each stream of a
        moment would be too many.
        """
        with self._changed:
            self._retired = True
            self._changed.notify_all()

    def end(self) -> None:
        """The process ends: give up what is queued. The thread goes once that is dropped."""
        with self._changed:
            self._ended, self._given_up = True, self._put
            self._changed.notify_all()

    def join_thread(self, seconds: float) -> None:
        """Wait until the queue's own thread has gone, but no longer than this."""
        if self._own is not None and self._own is not threading.current_thread():
            self._own.join(max(seconds, 0.0))

    def report(self, unfinished: int = 0) -> None:
        """Warn of an unreported error, and of work that was given up.

        It takes no lock: the queue may be being deleted.
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
        """Drop the error: another process reports it."""
        self._error = None

    def join(self, seconds: float) -> bool:
        """Wait for all work to end, but no longer than this; whether it did."""
        return self.wait_for(self._put, seconds)

    def _start(self) -> None:
        # A daemon: a process that ends does not wait for work that no thread waits for.
        thread = threading.Thread(target=self._run, name=f"tilec {self.name}", daemon=True)
        if (
            self._thread is not None
        ):  # the collector ran meanwhile, and put work here: a second thread would count two works as one
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
            del task  # with the arguments that it holds, before anybody is told that it is done
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
        """Do a work; what it came to."""
        try:
            if self._pace is not None:
                self._pace()
            work(lambda: number <= self._given_up)
        except BaseException as error:  # noqa: BLE001 - the thread that waits raises it
            return error
        return None

    def _note(self, number: int, error: BaseException) -> None:
        with contextlib.suppress(
            Exception
        ):  # no memory: marks behind it do not know of it then, but no thread waits for ever
            self._failures.append((number, copied(error)))

    def _next(self) -> _Task | None:
        """The oldest work; None where there was none for a while, and then no thread does the work
        any more.
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
    """The process ends: give up all work, wait up to this many seconds until it has stopped and all
    threads have gone, and warn of errors that were not reported.
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


class QueueMark:
    """A place in a queue's work.

    Attributes:
        time: when it was reached, in seconds of a clock that only runs forward; None before.
        error: of work before it: the errors that were not reported until it was reached, and all
            from `since` on.
    """

    def __init__(self, queue: Queue, since: int | None = None) -> None:
        """Set it behind what the queue has to do; `since` is the queue's position where the work
        began that it is about.
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
        """Wait until it is reached, or this is given up.

        Raises:
            RuntimeError: it is the queue's own thread that asks, with work before the mark to be
                done.
            DriverError: as `Queue.wait`.
        """
        self._queue.refuse_own(self._number)
        while not self._queue.wait_for(self._number, _PATIENCE) and not given_up():
            if sys.is_finalizing():
                raise _never_done(self._queue.name)

    def told(self) -> BaseException | None:
        """Return `error` to a caller that handles it."""
        error = self.error
        if error is not None:
            self._queue.forgive(error)
            self.error = copied(error)  # for who waits for the mark later
        return error

    def follow(self, given_up: Callable[[], bool]) -> None:
        """Wait as `wait` does, for work that needs what comes before the mark: it fails where that
        failed.
        """
        self.wait(given_up)
        if self.error is not None:
            raise copied(self.error)

    def _reach(self, _: Callable[[], bool]) -> None:
        self.error = self._queue.failure
        if self.error is None and self._since is not None:
            self.error = self._queue.failed_since(self._since)
        self.time = time.perf_counter()


def _no_thread(name: str, error: RuntimeError) -> DriverError:
    what = f"no thread can be started for {name}: {error}"
    cause = "the process has as many threads as it may, or it ends"
    fix = "end threads that are not needed, raise the limit (ulimit -u, or the container's), or use fewer streams at a time"
    return DriverError(
        what, result="CUDA_ERROR_OPERATING_SYSTEM", code=304, cause=cause, fix=fix, device=ON_CPU
    )


def _never_done(name: str) -> DriverError:
    what = f"the process ends while {name} has work that does not stop: it will not be done"
    cause = "an object's `__del__` waits for it when the interpreter is taken apart, and no other thread runs any more"
    return DriverError(
        what,
        result="CUDA_ERROR_DEINITIALIZED",
        code=4,
        cause=cause,
        fix="wait before the process ends",
        device=ON_CPU,
    )


def _warn(text: str) -> None:
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    except RuntimeWarning as warning:  # warnings are errors here, and no caller catches one
        sys.stderr.write(f"RuntimeWarning: {warning}\n")
