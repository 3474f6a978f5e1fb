"""Makes folders for temporary files of a tuning."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tilec_runtime.errors import OutputError


@contextlib.contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Make a folder in `folder`, and remove it at the end.

    Raises:
        OutputError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        own = tempfile.TemporaryDirectory(prefix="work-", dir=folder, ignore_cleanup_errors=True)
    except OSError as error:
        message = f"cannot make a folder in {folder} to work in: {error.strerror or error}"
        raise OutputError(message, fix="make room, or make the directory writable") from error
    try:
        with own as path:
            yield Path(path)
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()  # unless it holds something else
