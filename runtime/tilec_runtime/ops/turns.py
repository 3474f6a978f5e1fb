"""A lock whose holder may need what another thread holds: who would close a circle of threads that
wait for each other is refused.
"""

from __future__ import annotations

import os
import threading
from types import TracebackType

from tilec_runtime.errors import SchedulingError
from tilec_runtime.forks import ForkLock

# What each thread waits for. A holder is written down before it can wait itself, so the last of a
# circle finds the others here.
_WAITS: dict[int, Turn] = {}
_LOCK = ForkLock()  # the collector may run ops of dropped objects from inside


class Turn:
    """A lock that its holder may take again.

    Attributes:
        holder: the thread that has it.
    """

    def __init__(self) -> None:
        """Nobody has it."""
        self._lock = threading.RLock()
        self.holder: int | None = None
        self._depth = 0

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._wait()
        me = threading.get_ident()
        if self.holder != me:  # whatever a fork left
            self.holder, self._depth = me, 0
        self._depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self.holder = None
        self._lock.release()

    def _wait(self) -> None:
        me = threading.get_ident()
        with _LOCK:
            awaited: Turn | None = self
            while awaited is not None:
                holder = awaited.holder
                if holder == me:
                    what = "two shared ops need each other, and two threads execute them: each would wait for the other for ever"
                    raise SchedulingError(
                        what,
                        cause="functions of `then` give each the other's op",
                        fix="let one of them give another op",
                    )
                awaited = None if holder is None else _WAITS.get(holder)
            _WAITS[me] = self
        try:
            self._lock.acquire()
        finally:
            with _LOCK:
                del _WAITS[me]


os.register_at_fork(
    after_in_child=_WAITS.clear
)  # threads that waited are not there, and new ones may get their numbers
