"""Makes folders for temporary files of a tuning."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Make a folder in `folder`, and remove it at the end.

    Raises:
        OSError: it cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(
            prefix="work-", dir=folder, ignore_cleanup_errors=True
        ) as path:
            yield Path(path)
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()  # unless it holds something else
