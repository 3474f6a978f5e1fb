"""Cache digests of large files by path and status, to hash a compiler once."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tilec.model.digest import stream_digest
from tilec_runtime.bundle import store
from tilec_runtime.bundle.place import exposure
from tilec_runtime.model.digest import canonical_json

_KIND, _NAME = store.KINDS[1], hashlib.sha256(b"facts about tools").hexdigest()


class DigestTable:
    """A table of facts about files, stored in the cache in `state_dir`.

    With an empty `state_dir`, or one that other users can change, the table is in memory only. A
    table that cannot be read counts as empty, and one that cannot be written is dropped: it only
    saves time.
    """

    def __init__(self, state_dir: str) -> None:
        self._root = Path(state_dir) if state_dir and not exposure(Path(state_dir)) else None
        self._rows = self._load()

    def sha256(self, path: Path) -> str:
        """Return the hex SHA-256 of a file's bytes.

        Raises:
            OSError: the file cannot be read.
        """
        return self.fact("sha256", path, lambda: file_sha256(path))

    def fact(self, kind: str, path: Path, measure: Callable[[], str]) -> str:
        """Return the cached result of `measure` for this file, or call it if the file changed.

        Args:
            kind: name of the fact.
            path: the file.
            measure: computes the fact.

        Raises:
            OSError: the file is missing.
        """
        stat = path.stat()
        key = f"{kind}:{path}"
        # A program can restore size and modification time, but not the change time.
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
        # Keep the rows that another process wrote meanwhile. Without a lock a row may still be
        # lost; it is then measured again.
        self._rows = {**self._load(), **self._rows}
        with contextlib.suppress(OSError):
            store.save(self._root, _KIND, _NAME, canonical_json({"facts": self._rows}), b"")


def file_sha256(path: Path) -> str:
    """Return the hex SHA-256 of a file.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        return stream_digest(file)


def actual_rows(site: Path, rows: Iterable[str]) -> list[str]:
    """Return rows of a wheel's file list (`path,sha256=…,size`) for files in `site`.

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
