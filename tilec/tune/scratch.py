"""Makes folders for temporary files of a tuning; those of killed processes go with the next one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tilec_runtime.errors import OutputError


@contextlib.contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Make a folder in `folder`, and remove it at the end.

    A lock on the folder ends with its process: unlocked ones are left by killed processes.

    Raises:
        OutputError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob("work-*"):
            with contextlib.suppress(OSError), _locked(left):
                shutil.rmtree(left, ignore_errors=True)
        path = Path(tempfile.mkdtemp(prefix="work-", dir=folder))
    except OSError as error:
        what = f"cannot make a folder in {folder} to work in: {error.strerror or error}"
        raise OutputError(what, fix="make room, or make the directory writable") from error
    try:
        with _locked(path):
            yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.rmdir()  # unless it holds something else


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; BlockingIOError if another process holds it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
