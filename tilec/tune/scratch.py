"""Folders for what a tuning unpacks and computes: each goes with its process, or, where that was
killed, when the next one begins.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tilec_runtime.errors import OutputError


@contextlib.contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A folder of this process's own in `folder`, which goes when it was used; what killed
    processes left there goes first.

    A lock says whose process is there still: it goes with the process, however that ends, and no
    number of a process comes again with it.

    Raises:
        OutputError: it cannot be made.
    """
    path = folder / f"work-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _clear(folder)
        lock = _lock_of(path).open("wb")
        fcntl.flock(lock, fcntl.LOCK_EX)
        path.mkdir(exist_ok=True)
    except OSError as error:
        what = f"cannot make the folder {path} to work in: {error.strerror or error}"
        raise OutputError(what, fix="make room, or make the directory writable") from error
    with lock:
        try:
            yield path
        finally:
            _remove(path)
    with contextlib.suppress(OSError):
        folder.rmdir()  # where nothing else is in it


def _clear(folder: Path) -> None:
    for held in folder.glob("work-*.lock"):
        with contextlib.suppress(OSError), held.open("rb") as lock:
            fcntl.flock(
                lock, fcntl.LOCK_EX | fcntl.LOCK_NB
            )  # BlockingIOError: its process is at work
            _remove(held.with_suffix(""))


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        _lock_of(path).unlink()


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")
