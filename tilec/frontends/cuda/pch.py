"""Precompiled headers for the further instances of a template: kept by this process, in files that have no name any more."""

from __future__ import annotations

import collections
import contextlib
import os
import tempfile
from collections.abc import Hashable, Iterator
from pathlib import Path

# Heavier ones do not pay: they would fill the disk with one file per target.
_MAX_BYTES = 64 << 20
_MAX_KEPT = 8
_QUIET = ("--instantiate-templates-in-pch=false", "--pch-messages=false")


class Headers:
    """What was precompiled, by everything that it depends on. Results are the same with and without."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._kept: collections.OrderedDict[Hashable, int] = collections.OrderedDict()
        self._refused: set[Hashable] = set()

    def use(self, key: Hashable) -> list[str]:
        """Flags that use what was precompiled under this key; none where there is nothing."""
        handle = self._kept.get(key)
        if handle is None:
            return []
        self._kept.move_to_end(key)
        return [f"--use-pch=/proc/self/fd/{handle}", *_QUIET]

    @contextlib.contextmanager
    def create(self, key: Hashable) -> Iterator[list[str]]:
        """Flags that precompile the headers on the way; none where that has failed before.

        The file loses its name at once: a process that is killed leaves nothing behind.
        """
        if key in self._refused:
            yield []
            return
        with tempfile.TemporaryDirectory(prefix="tilec-pch-") as folder:
            path = Path(folder, "headers.pch")
            yield [f"--create-pch={path}", *_QUIET]
            self._refused.add(key)  # unless it is kept now, it is not tried again
            with contextlib.suppress(OSError):
                if 0 < path.stat().st_size <= _MAX_BYTES:
                    self._keep(key, os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def forget(self, key: Hashable) -> None:
        """Drop what was precompiled under a key: it hides warnings, or did not work."""
        self._refused.add(key)
        handle = self._kept.pop(key, None)
        if handle is not None:
            os.close(handle)

    def clear(self) -> None:
        """Forget everything."""
        for handle in self._kept.values():
            os.close(handle)
        self._kept.clear()
        self._refused.clear()

    def _keep(self, key: Hashable, handle: int) -> None:
        self._refused.discard(key)
        self._kept[key] = handle
        if len(self._kept) > _MAX_KEPT:
            _, oldest = self._kept.popitem(last=False)
            os.close(oldest)


HEADERS = Headers()
