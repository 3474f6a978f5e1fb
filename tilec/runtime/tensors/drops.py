"""What must outlive its last reference: frees that wait for the end of a capture, and objects that a device still uses."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tilec.errors import ContextLostError, TilecError
from tilec.runtime.marks import Mark


class Drops:
    """Objects to be let go once marks are reached, and calls to be made once no capture is in their way.

    Everything here may be called by the collector, on any thread: nothing waits, and a lock is taken only by `drain`.
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self._kept: collections.deque[tuple[Sequence[Mark], Any]] = collections.deque()
        self._calls: collections.deque[Callable[[], None]] = collections.deque()
        self._lock = threading.Lock()

    def keep(self, marks: Sequence[Mark], thing: Any) -> None:
        """Keep an object alive until all marks are reached; `drain` lets it go."""
        self._kept.append((marks, thing))

    def call(self, free: Callable[[], None]) -> None:
        """Make a call that gives memory back. What it raises is logged: nobody waits for it."""
        _make(free)

    def later(self, free: Callable[[], None]) -> None:
        """Make a call at the next `drain`: its stream is captured now, and nobody says when that ends."""
        self._calls.append(free)

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
                for _ in range(len(self._calls)):  # each may have to wait again
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
