"""Values that a process makes once, however many threads ask for them first."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Generic, TypeVar

from tilec_runtime.forks import ForkLock

T = TypeVar("T")


class Once(Generic[T]):
    """Decorate a function without arguments: its first call makes the value that every call
    returns.

    `functools.cache` calls the function once for each thread that comes before the first value is
    there. A call that raises leaves nothing: the next one tries again.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = ForkLock()
        self._made: list[T] = []
        functools.update_wrapper(self, make)

    def __call__(self) -> T:
        """Return the value; make it if this is the first call."""
        if not self._made:
            with self._lock:
                if not self._made:
                    self._made.append(self._make())
        return self._made[0]
