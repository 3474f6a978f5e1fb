"""What must outlive its last reference: frees that wait for the end of a capture, and objects that a device still uses."""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilec.errors import ContextLostError, TilecError
from tilec.runtime.marks import Mark


class Drops:
    """Objects to be let go once marks are reached, and calls to be made once nobody holds them back.

    Everything here may be called by the collector, on any thread: nothing waits, and a lock is taken only by `drain`.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self._kept: collections.deque[tuple[Sequence[Mark], Any]] = collections.deque()
        self._calls: collections.deque[Callable[[], None]] = collections.deque()
        self._holds = 0
        self._lock = threading.Lock()

    def keep(self, marks: Sequence[Mark], thing: Any) -> None:
        """Keep an object alive until all marks are reached; `drain` lets it go."""
        self._kept.append((marks, thing))

    def call(self, free: Callable[[], None]) -> None:
        """Make a call that gives memory back, now or when the last `held` block ends. What it raises is logged: nobody waits for it."""
        if self._holds:
            self._calls.append(free)
        else:
            _make(free)

    def later(self, free: Callable[[], None]) -> None:
        """Make a call at the next `drain`: its stream is captured now, and nobody says when that ends."""
        self._calls.append(free)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold calls back: while a stream is captured, a free in its order would become a part of the graph."""
        with self._lock:
            self._holds += 1
        try:
            yield
        finally:
            with self._lock:
                self._holds -= 1
            while not self._holds and self._calls:
                with contextlib.suppress(IndexError):  # another thread may have taken it
                    _make(self._calls.popleft())

    def drain(self) -> int:
        """Let go what no device uses any more; the number of objects that are left. Never waits for a device."""
        if self._lock.acquire(blocking=False):
            try:
                for _ in range(len(self._kept)):
                    marks, thing = self._kept.popleft()
                    waiting = [mark for mark in marks if not _reached(mark)]
                    if waiting:
                        self._kept.append((waiting, thing))
                    del thing
                for _ in range(0 if self._holds else len(self._calls)):
                    _make(self._calls.popleft())
            finally:
                self._lock.release()
        return len(self._kept)


DROPS = Drops()


def _reached(mark: Mark) -> bool:
    try:
        with mark.driver.outside_captures(mark.ordinal):
            return mark.reached
    except TilecError:  # the work failed: it is over all the same, and whoever waits for it is told
        return True


def _make(free: Callable[[], None]) -> None:
    try:
        free()
    except ContextLostError:  # the memory is gone with the context
        pass
    except Exception:
        import logging  # costs more than all of this module, and is hardly ever needed

        logging.getLogger("tilec.runtime").warning("memory could not be given back", exc_info=True)
