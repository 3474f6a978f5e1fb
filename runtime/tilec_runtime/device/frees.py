"""Frees of device memory: made where their object is finalized, or by the next call that takes
memory.
"""

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
    """Calls that free memory. Those of the collector wait: it may run inside any lock, of which a
    free could need another.
    """

    def __init__(self) -> None:
        """Start with nothing that waits."""
        self._waiting: collections.deque[Callable[[], None]] = collections.deque()
        self._lock = threading.RLock()
        self._collector: int | None = None  # the thread that the collector runs on now
        self._closed = False

    def call(self, free: Callable[[], None]) -> None:
        """Free memory now, or at a later `drain` where this thread is in the collector. A failure
        is logged.

        Once the process ends nothing is freed: the driver takes everything back by itself, and may
        be gone by then.
        """
        if self._closed:
            return
        if self._collector == threading.get_ident():
            self.later(free)
        else:
            _make(free)

    def later(self, free: Callable[[], None]) -> None:
        """Free memory at a later `drain`: now it would become a part of the graph that its stream
        is captured into.
        """
        self._waiting.append(free)

    def drain(self) -> None:
        """Make the frees that wait. Those that another thread is making are waited for."""
        if self._collector == threading.get_ident():
            return
        with self._lock:
            for _ in range(len(self._waiting)):  # each may have to wait again
                with contextlib.suppress(IndexError):  # a free that led here again made the others
                    _make(self._waiting.popleft())

    def note(self, phase: str, _: object) -> None:
        """Take note of the collector, which calls this."""
        self._collector = threading.get_ident() if phase == "start" else None

    def close(self) -> None:
        """Free nothing more: the process ends."""
        self._closed = True
        self._waiting.clear()
        with contextlib.suppress(ValueError):  # the program removed it
            gc.callbacks.remove(self.note)

    def renew(self) -> None:
        """Start over in a forked child: no other thread holds the lock, and what waits is the
        parent's to free.
        """
        self._waiting.clear()
        self._lock = threading.RLock()
        self._collector = None


FREES = Frees()
gc.callbacks.append(FREES.note)
atexit.register(FREES.close)
os.register_at_fork(after_in_child=FREES.renew)


class Release:
    """A call that frees memory, made once: by its owner, or when the owner goes."""

    __slots__ = ("_calls",)

    def __init__(self, free: Callable[[], None]) -> None:
        """Own a call, which must not lead back to the owner."""
        self._calls = [free]

    @property
    def due(self) -> bool:
        """Whether the call was not made yet."""
        return bool(self._calls)

    # The default is there also when the interpreter has taken this module apart.
    def __call__(self, frees: Any = FREES) -> None:
        """Make the call, unless it was made before."""
        try:
            free = self._calls.pop()  # one step: of two threads that free, one has it
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
        import logging  # it takes long to import, and is hardly ever needed

        logging.getLogger("tilec_runtime").warning("memory could not be given back", exc_info=error)
