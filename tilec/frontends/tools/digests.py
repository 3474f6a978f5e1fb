"""Digests of big files, remembered by path and status in the private cache, so that no run hashes a
compiler twice.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tilec_runtime.bundle import store
from tilec_runtime.bundle.place import exposure
from tilec_runtime.model.digest import canonical_json

_KIND, _NAME = store.KINDS[1], hashlib.sha256(b"facts about tools").hexdigest()


class DigestTable:
    """A table of facts about files, kept as a record of the cache in `state_dir`; an empty
    `state_dir` keeps it in memory only.

    A table that cannot be read or written, or that others can change, is treated as empty: it only
    saves time.
    """

    def __init__(self, state_dir: str) -> None:
        self._root = Path(state_dir) if state_dir and not exposure(Path(state_dir)) else None
        self._rows = self._load()

    def sha256(self, path: Path) -> str:
        """Hex SHA-256 of a file's bytes.

        Raises:
            OSError: the file cannot be read.
        """
        return self.fact("sha256", path, lambda: file_sha256(path))

    def fact(self, kind: str, path: Path, measure: Callable[[], str]) -> str:
        """What `measure` gave for this file when it was last seen with this status.

        The change time is part of it: a program can set all else back to what it was, and not that.

        Raises:
            OSError: the file is not there.
        """
        stat = path.stat()
        key = f"{kind}:{path}"
        stamp = f"{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}:{stat.st_ino}"
        row = self._rows.get(key)
        if row is not None and row[0] == stamp:
            return row[1]
        value = measure()
        self._rows[key] = (stamp, value)
        self._save()
        return value

    def _load(self) -> dict[str, tuple[str, str]]:
        if self._root is None:
            return {}
        try:
            entry = store.load(store.path_of(self._root, _KIND, _NAME), now=time.time())
            rows = {} if entry is None else entry[0]["facts"]
            return {str(key): (str(stamp), str(value)) for key, (stamp, value) in rows.items()}
        except (
            OSError,
            store.DamagedError,
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            RecursionError,
        ):
            return {}

    def _save(self) -> None:
        if self._root is None:
            return
        # Rows of another process that wrote meanwhile are worth keeping; a lost row is only
        # measured again.
        self._rows = {**self._load(), **self._rows}
        with contextlib.suppress(OSError):
            store.save(self._root, _KIND, _NAME, canonical_json({"facts": self._rows}), b"")


def file_sha256(path: Path) -> str:
    """Hex SHA-256 of a file, read in pieces."""
    state = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            state.update(piece)
    return state.hexdigest()


def actual_rows(site: Path, rows: Iterable[str]) -> list[str]:
    """The rows of a wheel's file list (`path,sha256=…,size`) as they should be for the files in
    `site` as they are now.

    Raises:
        OSError: a file cannot be read.
    """
    actual = []
    for row in rows:
        name = row.split(",", 1)[0]
        digest = (
            base64.urlsafe_b64encode(bytes.fromhex(file_sha256(site / name))).rstrip(b"=").decode()
        )
        actual.append(f"{name},sha256={digest},{(site / name).stat().st_size}")
    return actual
