"""One thread per process that asks whether marks are reached, calls whoever waits for them, and lets go what the device used."""

from __future__ import annotations

import atexit
import collections
import contextlib
import itertools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from tilec.runtime.lost import PENDING, Losses
from tilec.runtime.marks import Mark
from tilec.runtime.tensors.drops import DROPS, leave

_LOG = logging.getLogger("tilec.runtime")
# Gets what the work before the mark came to; None where it is done well.
Told = Callable[[BaseException | None], None]
# Seconds between two rounds: the first, and the most, where somebody waits, and where things only are to be let go.
_SOON, _LATE, _LAZY = 25e-6, 1e-3, 5e-3
# By which pauses grow: what is told is late by a thirtieth of the time that it took, at most.
_LATER = 1.03
# Seconds without work after which the thread ends, and for which the end of the process waits for the device.
_LINGER, _PATIENCE = 0.5, 2.0
# What prctl(2) calls it, and nanoseconds by which pauses may be longer.
_PR_SET_TIMERSLACK, _SLACK = 29, 1000
# (id of the driver, device, stream): marks of one stream are reached in order, so only the first of each is asked.
_Line = tuple[int, int, int]


class Watcher:
    """Marks that somebody waits for, in lines: one for each stream. The thread comes with the first mark and goes when all are reached."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._lines: dict[_Line, collections.deque[tuple[Mark, Told]]] = {}
        self._thread: threading.Thread | None = None
        self._own: threading.Thread | None = None  # the thread that was started last
        self._drops = False
        self._hurried = False
        self._at_it = False  # it tells somebody, or lets go
        self._over = False  # the process ends: the thread comes only for what is not reached when somebody looks

    @property
    def busy(self) -> bool:
        """Whether somebody who has not heard yet is to be told of a mark."""
        with self._lock:
            for line in self._lines.values():  # noqa: SIM110 - each await asks, and a generator costs more than all of this
                if line and not _has_heard(line[-1][1]):
                    return True
            return False

    def watch(self, mark: Mark, stream: int, told: Told) -> None:
        """Call `told` on the watcher's thread once a mark is reached. Until then the watcher keeps it alive, with all that it holds.

        It looks at its own pace, a few milliseconds later at most: who waits for it says so (`hurry`). A thread that wakes up at once would
        take turns with the one that enqueues, at each of its calls of the driver.
        """
        with self._lock:
            key = (id(mark.driver), mark.ordinal, stream)
            line = self._lines.get(key)
            if line is None:
                line = self._lines[key] = collections.deque()
            while line and _has_heard(line[0][1]):  # by a wait of its own
                line.popleft()
            line.append((mark, told))
            self._needed()
        self._look_over()

    def hurry(self) -> None:
        """Somebody waits from now on: look soon, and often."""
        with self._lock:
            self._hurried = True
            self._needed()
            self._changed.notify()
        self._look_over()

    def keep(self, mark: Mark, thing: Any) -> None:
        """Keep an object alive until a mark is reached."""
        DROPS.keep((mark,), thing)
        with self._lock:
            self._drops = True
            self._needed()
        self._look_over()

    def pending(self, losses: Losses, ordinal: int) -> list[str]:
        """Futures that wait for a device whose contexts these are: their ops, the first of each stream first."""
        with self._lock:
            lines = [list(line) for line in self._lines.values()]
        ours = [line for line in lines if line[0][0].ordinal == ordinal and getattr(line[0][0].driver, "_losses", None) is losses]
        waiting = [told for turn in itertools.zip_longest(*ours) for entry in turn if entry is not None for told in entry[1:]]
        return [label for told in waiting if (label := getattr(told, "label", ""))]

    def drain(self, seconds: float) -> bool:
        """Wait until every mark is reached and everybody told, but no longer than this; whether that is so."""
        end = time.monotonic() + seconds
        while DROPS.drain() or self._lines or (self._at_it and threading.current_thread() is not self._thread):
            if time.monotonic() > end:
                return False
            time.sleep(_LATE)
        return True

    def end(self, seconds: float) -> None:
        """The process ends: `drain`, and see that the thread has gone too, as far as that is possible in this time.

        A thread that waits for the interpreter's lock when that is taken apart, or is just being started, uses memory that the interpreter
        has freed (Python 3.10 does that), and the process may die of it.
        """
        last = time.monotonic() + seconds
        self.drain(seconds)
        with self._lock:
            self._over = True
            self._changed.notify()
        leave(self._lines)
        if self._own is not None and self._own is not threading.current_thread():
            self._own.join(max(last - time.monotonic(), _LAZY))

    def renew(self) -> None:
        """Start over in a forked child, which has none of its parent's threads and streams."""
        self.__init__()  # type: ignore[misc]

    def _look_over(self) -> None:
        """Once the process ends: do what the thread would do, and leave to it only what is not reached yet."""
        if not self._over or self._thread is threading.current_thread():
            return
        with self._lock:
            lines = [(key, line, len(line)) for key, line in self._lines.items()]
        for key, line, marks in lines:  # no more than there are: who is told may watch something else
            while marks and self._first(key, line):
                marks -= 1
        left = DROPS.drain()
        with self._lock:
            self._drops = False
            if self._lines or left:
                self._start()

    def _needed(self) -> None:
        """There is something to do for the thread, if the process does not end: then it is `_look_over` that decides."""
        if not self._over:
            self._start()

    def _start(self) -> None:
        if self._thread is not None:
            return
        # A daemon: a process that ends does not wait for what nobody waited for.
        self._thread = self._own = threading.Thread(target=self._run, name="tilec-watcher", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            if not self._thread.is_alive():
                self._thread = self._own = None  # whoever comes next tries again
            raise

    def _run(self) -> None:
        _wake_on_time()
        pause, idle = _SOON, 0.0
        while True:
            told = self._round()
            with self._lock:
                self._drops = False  # before it is looked: what comes after that sets it again
            left = DROPS.drain()
            with self._lock:
                self._at_it = False
                if self._lines or left or self._drops:
                    idle, pause = 0.0, min(pause * _LATER, _LATE if self._lines else _LAZY)
                elif idle >= _LINGER or self._over:
                    self._thread = None
                    return
                else:
                    idle, pause = idle + _LAZY, _LAZY
                if told or self._hurried:
                    pause = _SOON
                self._hurried = False
                self._changed.wait(pause)

    def _round(self) -> bool:
        """Ask the first marks of every line, and call those who wait for them as far as they are reached; whether any was."""
        with self._lock:
            lines = list(self._lines.items())
            self._at_it = True
        told = False
        for key, line in lines:
            while self._first(key, line):
                told = True
        return told

    def _first(self, key: _Line, line: collections.deque[tuple[Mark, Told]]) -> bool:
        """Deal with the first mark of a line; whether there is one that is reached."""
        with self._lock:
            if not line:
                return False
            first = line[0]
        reached, error = _ask(first[0])
        if not reached:
            return False
        with self._lock:
            if line and line[0] is first:  # else who heard by itself has given it up
                line.popleft()
            if not line and self._lines.get(key) is line:
                del self._lines[key]
        _tell(first[1], error)
        return True


def _wake_on_time() -> None:
    """Let this thread's pauses be as long as they are. Linux lets threads sleep 50 us longer, which is twice the first pause."""
    if sys.platform != "linux":
        return
    import ctypes  # to pack arguments, it is needed anyway

    with contextlib.suppress(OSError, AttributeError):  # a C library without it: pauses are longer
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(_SLACK), 0, 0, 0)


def _has_heard(told: Told) -> bool:
    """Whether nobody is behind it any more: futures are given up once they know."""
    return getattr(told, "future", told) is None


def _ask(mark: Mark) -> tuple[bool, BaseException | None]:
    try:
        with mark.driver.outside_captures(mark.ordinal):  # to ask would break captures of all threads that are in the global mode
            return (True, mark.failure) if mark.reached else (False, None)
    except Exception as error:  # noqa: BLE001 - the device is lost; or whatever else: this thread must go on, and nobody wait for ever
        return True, error


def _tell(told: Told, error: BaseException | None) -> None:
    try:
        told(error)
    except BaseException:  # noqa: BLE001 - nobody waits for it, and this thread has others to tell, also after sys.exit() in a callback
        _LOG.exception("a callback of a DeviceFuture failed")


WATCHER = Watcher()
PENDING.append(WATCHER.pending)
os.register_at_fork(after_in_child=WATCHER.renew)
# What host memory the device still reads must not go with the interpreter.
atexit.register(WATCHER.end, _PATIENCE)
