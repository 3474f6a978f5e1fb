"""Renewal of state in forked children, and values that a process makes once."""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class Renewed(Protocol):
    """State with threads or locks, which a forked child does not have."""

    def renew(self) -> None:
        """Reset the state in a forked child."""


_RENEWED: weakref.WeakSet[Renewed] = weakref.WeakSet()


def renew_in_children(state: Renewed) -> None:
    """Call `renew` of a state in each forked child, as long as the state lives."""
    _RENEWED.add(state)


class ForkLock:
    """A reentrant lock that is free in a forked child, even if another thread held it.

    It protects state that lives as long as the process or a device. Tensors and ops have plain
    locks: a program that forks in the middle of an op cannot use its tensors in the child.
    """

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        """Create a lock that no thread holds."""
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Replace the lock by a free one."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        """Acquire it."""
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        """Release it."""
        self._lock.release()


def _renew_all() -> None:
    for state in list(_RENEWED):
        state.renew()


os.register_at_fork(after_in_child=_renew_all)


class Once(Generic[T]):
    """A decorator of functions without arguments: the first call makes the value.

    `functools.cache` may call the function once per thread before the first value exists. A call
    that raises caches nothing, so the next call tries again.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = ForkLock()
        self._made: list[T] = []
        functools.update_wrapper(self, make)

    def __call__(self) -> T:
        """Return the value; make it at the first call."""
        if not self._made:
            with self._lock:
                if not self._made:
                    self._made.append(self._make())
        return self._made[0]
