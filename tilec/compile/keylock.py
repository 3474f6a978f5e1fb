"""A lock by name among the processes that share a cache: it ends with the process that holds it,
and leaves nothing behind.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tilec_runtime.bundle import store


class KeyLock:
    """One byte of the cache's lock file for each name; a process holds one name at a time, so that
    none waits for another in a circle.

    Where the cache or its file system has no locks, every name is free: work is then done twice.

    Args:
        root: the cache's directory; None for no locks.
    """

    def __init__(self, root: Path | None) -> None:
        self._root = root
        self._file = -1
        self._held = ""

    def take(self, name: str) -> bool:
        """Hold `name` (hex digits), and let go of any other; False where another process holds it."""
        if self._root is None or name == self._held:
            return True
        self.release()
        try:
            if self._file < 0:
                self._file = store.open_lock(self._root)
        except OSError:
            self._root = None
            return True
        try:
            # Locks of a process and not of the descriptor: no child process inherits them, and NFS
            # has them too.
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _place(name))
        except (BlockingIOError, PermissionError):  # both mean that it is held, by the system
            return False
        except OSError:
            self._root = None
            return True
        self._held = name
        return True

    def release(self) -> None:
        """Let go of the name that is held, if any."""
        if self._held:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _place(self._held))
            self._held = ""

    def close(self) -> None:
        """Let go, and close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file, self._held = -1, ""


def _place(name: str) -> int:
    return int(name[:15], 16)
