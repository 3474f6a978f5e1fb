"""Locks that are free in a forked child, which has none of its parent's threads."""

from __future__ import annotations

import os
import threading
import weakref

_LOCKS: weakref.WeakSet[ForkLock] = weakref.WeakSet()


class ForkLock:
    """A reentrant lock of something that lives as long as the process or a device: a child may need
    it whichever thread had it.

    Locks of tensors and ops are plain ones: a program that forks in the middle of an op cannot use
    its tensors in the child.
    """

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        """Make a lock that no thread has."""
        self.renew()
        _LOCKS.add(self)

    def renew(self) -> None:
        """Let no thread have it."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        """Acquire it."""
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        """Release it."""
        self._lock.release()


def _renew_all() -> None:
    for lock in list(_LOCKS):
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)
