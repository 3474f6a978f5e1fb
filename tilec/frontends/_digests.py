"""Digests of big files, remembered by path, size, time and inode so that no run hashes a compiler twice."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

_NAME = "tool-digests-1.json"
_MAX_TABLE = 4 << 20


class DigestTable:
    """A table of facts about files, kept in one JSON file under `state_dir`; an empty `state_dir` keeps it in memory only.

    A table that cannot be read or written is treated as empty: it only saves time.
    """

    def __init__(self, state_dir: str) -> None:
        self._path = Path(state_dir, _NAME) if state_dir else None
        self._rows = self._load()

    def sha256(self, path: Path) -> str:
        """Hex SHA-256 of a file's bytes.

        Raises:
            OSError: the file cannot be read.
        """
        return self.fact("sha256", path, lambda: file_sha256(path))

    def fact(self, kind: str, path: Path, measure: Callable[[], str]) -> str:
        """What `measure` gave for this file when it was last seen with this size, time and inode.

        Raises:
            OSError: the file is not there.
        """
        stat = path.stat()
        key = f"{kind}:{path}"
        stamp = f"{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ino}"
        row = self._rows.get(key)
        if row is not None and row[0] == stamp:
            return row[1]
        value = measure()
        self._rows[key] = (stamp, value)
        self._save()
        return value

    def _load(self) -> dict[str, tuple[str, str]]:
        if self._path is None:
            return {}
        try:
            if self._path.stat().st_size > _MAX_TABLE:
                return {}
            raw = json.loads(self._path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(raw, dict):
            return {}
        return {
            key: (row[0], row[1])
            for key, row in raw.items()
            if isinstance(row, list) and len(row) == 2 and isinstance(row[0], str) and isinstance(row[1], str)
        }

    def _save(self) -> None:
        if self._path is None:
            return
        # Rows of another process that wrote meanwhile are worth keeping; a lost row is only measured again.
        self._rows = {**self._load(), **self._rows}
        import tempfile  # only when there is something new: importing it costs more than reading the table

        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self._path.parent, prefix=_NAME)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(self._rows, file)
                Path(temporary).replace(self._path)
            except OSError:
                Path(temporary).unlink(missing_ok=True)


def file_sha256(path: Path) -> str:
    """Hex SHA-256 of a file, read in pieces."""
    state = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            state.update(piece)
    return state.hexdigest()
