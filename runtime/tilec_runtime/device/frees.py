"""Frees of device memory: at an object's finalization, or deferred."""

from __future__ import annotations

import atexit
import collections
import contextlib
import gc
import os
import threading
from collections.abc import Callable
from typing import Any

from tilec_runtime.errors import ContextLostError


class Frees:
    """Calls that free memory.

    A call by the garbage collector is deferred: the collector may run under any lock, and a free
    may need another lock.
    """

    def __init__(self) -> None:
        """Start without deferred calls."""
        self._waiting: collections.deque[Callable[[], None]] = collections.deque()
        self._lock = threading.RLock()
        self._collector: int | None = None  # the thread in which the collector runs now
        self._closed = False

    def call(self, free: Callable[[], None]) -> None:
        """Free memory now, or later if this thread is in the garbage collector.

        A failure is logged. At the end of the process nothing is freed: the driver frees everything
        itself, and may be unloaded by then.
        """
        if self._closed:
            return
        if self._collector == threading.get_ident():
            self.later(free)
        else:
            _make(free)

    def later(self, free: Callable[[], None]) -> None:
        """Free memory at a later `drain`.

        A free during a capture of its stream would become a node of the graph.
        """
        self._waiting.append(free)

    def drain(self) -> None:
        """Make the deferred calls; wait for those that another thread is making."""
        if self._collector == threading.get_ident():
            return
        with self._lock:
            for _ in range(len(self._waiting)):  # bounded: a call may be deferred again
                with contextlib.suppress(IndexError):  # a call that led here again made the others
                    _make(self._waiting.popleft())

    def note(self, phase: str, _: object) -> None:
        """Track the garbage collector, which calls this at its start and end."""
        self._collector = threading.get_ident() if phase == "start" else None

    def close(self) -> None:
        """Free nothing more, because the process ends."""
        self._closed = True
        self._waiting.clear()
        with contextlib.suppress(ValueError):  # the program removed it
            gc.callbacks.remove(self.note)

    def renew(self) -> None:
        """Start over in a forked child, whose parent frees the memory.

        The lock is new, because a thread of the parent may have held it.
        """
        self._waiting.clear()
        self._lock = threading.RLock()
        self._collector = None


FREES = Frees()
gc.callbacks.append(FREES.note)
atexit.register(FREES.close)
os.register_at_fork(after_in_child=FREES.renew)


class Release:
    """A call that frees memory, made once: by the owner or at its finalization."""

    __slots__ = ("_calls",)

    def __init__(self, free: Callable[[], None]) -> None:
        """Keep a call, which must not refer to the owner."""
        self._calls = [free]

    @property
    def due(self) -> bool:
        """Whether the call was not made yet."""
        return bool(self._calls)

    # A default argument, because the interpreter clears the module's globals when it ends.
    def __call__(self, frees: Any = FREES) -> None:
        """Make the call, unless it was made before."""
        try:
            free = self._calls.pop()  # atomic: only one of two threads gets the call
        except IndexError:
            return
        frees.call(free)

    __del__ = __call__


def _make(free: Callable[[], None]) -> None:
    try:
        free()
    except ContextLostError:  # the memory is gone with the context
        pass
    except Exception as error:
        import logging  # slow to import, and rarely needed

        logging.getLogger("tilec_runtime").warning("memory could not be given back", exc_info=error)
