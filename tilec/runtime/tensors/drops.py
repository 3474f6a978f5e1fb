"""What must outlive its last reference: frees that wait for the end of a capture, and objects that a device still uses."""

from __future__ import annotations

import _thread
import atexit
import collections
import ctypes
import gc
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tilec.errors import ContextLostError, TilecError
from tilec.runtime.marks import Mark

# Seconds between two rounds of the thread that lets go in an idle process, and rounds with nothing left after which it ends.
_LAZY, _LINGER = 5e-3, 20
# Seconds between two looks of the end of the process whether that thread has gone.
_SHORT = 5e-4
# Seconds for which somebody who wants memory waits for a thread that is giving some back.
_PATIENCE = 1.0
# The thread that the collector runs on now, if it does.
_COLLECTING: list[int | None] = [None]
# What else is to be done at the end of each collection: here, since what it lets go comes of the collector too.
COLLECTED: list[Callable[[], None]] = []


class Drops:
    """Objects to be let go once marks are reached, and calls to be made once no capture is in their way.

    Everything here may be called by the collector, on any thread: nothing waits, and a lock is taken only by `drain`.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self._kept: collections.deque[tuple[Sequence[Mark], Any]] = collections.deque()
        self._calls: collections.deque[Callable[[], None]] = collections.deque()
        self._lock = threading.Lock()
        self._drainer: int | None = None  # the thread that has the lock
        self._unattended = [None]  # who takes what is in it starts the thread
        self._nap = _held()  # released once the process ends, and then there is no thread any more
        self._over = False

    def keep(self, marks: Sequence[Mark], thing: Any) -> None:
        """Keep an object alive until all marks are reached; `drain` lets it go."""
        self._kept.append((marks, thing))

    def keep_idle(self, marks: Sequence[Mark], thing: Any) -> None:
        """As `keep`, and see that it is let go also where the process does nothing more with devices."""
        self._kept.append((marks, thing))
        if self.drain():
            self._see_to_it()

    def end(self) -> None:
        """The process ends: no thread looks after what is left, and what a device may use still stays where it is."""
        if self._over:
            return
        self._over = True
        self._nap.release()
        last = time.monotonic() + _PATIENCE
        while not self._unattended and time.monotonic() < last:
            time.sleep(_SHORT)
        leave(self._kept)

    def _see_to_it(self) -> None:
        """Let a thread look at what is left, until nothing is."""
        if self._over:
            return
        try:
            self._unattended.pop()
        except IndexError:  # the thread is there, and looks again before it ends
            return
        try:
            # Not of `threading`, whose locks the thread that the collector runs on may hold.
            _thread.start_new_thread(self._attend, ())
        except RuntimeError:  # the interpreter ends, or there are too many threads: a later call of `drain` does it
            self._unattended.append(None)

    def call(self, free: Callable[[], None]) -> None:
        """Make a call that gives memory back. What it raises is logged: nobody waits for it.

        The collector may run anywhere, and so while this thread holds locks of anybody's: what it lets go is given back by the next
        `drain`, or by the thread that looks after an idle process.
        """
        if _COLLECTING[0] == _thread.get_ident():
            self.later(free)
        else:
            _make(free)

    def later(self, free: Callable[[], None]) -> None:
        """Make a call at a later `drain`: its stream is captured now, and nobody says when that ends, or this is no place for it."""
        self._calls.append(free)
        self._see_to_it()

    def drain(self) -> int:
        """Let go what no device uses any more; the number of objects that are left. Never waits for a device."""
        if not self._lock.acquire(blocking=False):
            return len(self._kept) or 1  # whoever is at it has one in hand, and may put it back
        self._drainer = _thread.get_ident()
        try:
            for _ in range(len(self._kept)):
                marks, thing = self._kept.popleft()
                try:
                    waiting = [mark for mark in marks if not _reached(mark)]
                except BaseException:  # Ctrl-C: the device may use it still
                    self._kept.append((marks, thing))
                    raise
                if waiting:
                    self._kept.append((waiting, thing))
                del thing
            for _ in range(len(self._calls)):  # each may have to wait again
                _make(self._calls.popleft())
        finally:
            self._drainer = None
            self._lock.release()
        return len(self._kept)

    def drain_all(self) -> None:
        """As `drain`, where it matters what was given back: another thread that is at it has some of it in hand, and is waited for."""
        if self._drainer != _thread.get_ident() and self._lock.acquire(timeout=_PATIENCE):
            self._lock.release()
        self.drain()

    def renew(self) -> None:
        """Say in a forked child that the threads of its parent are not there."""
        self._lock = threading.Lock()
        self._drainer = None
        self._unattended = [None]
        self._nap = _held()

    def _attend(self) -> None:
        """What the thread does: let go until nothing is left for a while."""
        idle = 0
        try:
            while idle < _LINGER and not self._nap.acquire(timeout=_LAZY):
                idle = 0 if self.drain() or self._calls else idle + 1
        finally:
            self._unattended.append(None)
        if self._over:
            return
        if self._kept or self._calls:  # since it was looked last: who came with it saw the thread
            self._see_to_it()


def _held() -> Any:
    """A lock that is taken. Not of `threading`: see `_see_to_it`."""
    lock = _thread.allocate_lock()
    lock.acquire()
    return lock


def leave(things: Any) -> None:
    """Never let go of something at the end of the process: a device, or a thread that is not in Python, may use it to the last."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(things))


# With what it needs as defaults: it is called until the interpreter has taken its modules apart.
def _collector(
    phase: str,
    _: object,
    collecting: list[int | None] = _COLLECTING,
    collected: list[Callable[[], None]] = COLLECTED,
    this_thread: Callable[[], int] = _thread.get_ident,
) -> None:
    if phase == "start":
        collecting[0] = this_thread()
        return
    try:
        for function in collected:
            function()
    finally:
        collecting[0] = None


DROPS = Drops()
gc.callbacks.append(_collector)
atexit.register(COLLECTED.clear)
atexit.register(DROPS.end)
os.register_at_fork(after_in_child=DROPS.renew)


def _reached(mark: Mark) -> bool:
    try:
        with mark.driver.outside_captures(mark.ordinal):
            return mark.reached
    except TilecError:  # the work failed: it is over all the same, and whoever waits for it is told
        return True
    except Exception as error:  # noqa: BLE001 - whoever asks lets other things go too
        _log("whether a device is done cannot be told", error)
        return True


def _make(free: Callable[[], None]) -> None:
    try:
        free()
    except ContextLostError:  # the memory is gone with the context
        pass
    except Exception as error:  # noqa: BLE001 - nobody waits for it
        _log("memory could not be given back", error)


def _log(what: str, error: Exception) -> None:
    import logging  # costs more than all of this module, and is hardly ever needed

    logging.getLogger("tilec.runtime").warning(what, exc_info=error)
