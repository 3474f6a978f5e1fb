"""List and remove the files of a cache, those of other releases too."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from tilec_runtime.bundle.store import KINDS, remove

_NAME = re.compile(r"[0-9a-f]{64}")
_TEMP = re.compile(r"tmp-(\d+)-[0-9a-f]+")  # as `store.replace` names them, with the writer's id


def files(root: Path) -> Iterator[tuple[float, int, str]]:
    """Yield (last use, bytes, path) of every file that tilec wrote.

    This includes temporary files and files of other formats.
    """
    for version in _folders(str(root), re.compile(r"v\d+")):
        for kind in _folders(version, re.compile("|".join(KINDS))):
            for fan in _folders(kind, re.compile("[0-9a-f]{2}")):
                with contextlib.suppress(OSError), os.scandir(fan) as rows:
                    for row in rows:
                        if _NAME.fullmatch(row.name) or _TEMP.fullmatch(row.name):
                            with contextlib.suppress(OSError):
                                facts = row.stat(follow_symlinks=False)
                                yield facts.st_mtime, facts.st_size, row.path


def clear(root: Path) -> int:
    """Remove every file of `files`; return the freed bytes.

    Directories stay, since another process may be writing to one.
    """
    return sum(remove(path, size) for _, size, path in files(root))


def is_temp(path: str) -> bool:
    """Whether a path of `files` is a temporary file, of a running or of a dead writer."""
    return _TEMP.fullmatch(path.rpartition("/")[2]) is not None


def is_stale(path: str, age: float) -> bool:
    """Whether a file is temporary and its writer is dead; `age` in seconds."""
    match = _TEMP.fullmatch(path.rpartition("/")[2])
    # The writer of a young file may be in another PID namespace, where its id has no meaning.
    return match is not None and age > 60 and (age > 86400 or not _alive(int(match[1])))


def _folders(parent: str, pattern: re.Pattern[str]) -> list[str]:
    try:
        with os.scandir(parent) as rows:
            return sorted(
                row.path
                for row in rows
                if pattern.fullmatch(row.name) and row.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
