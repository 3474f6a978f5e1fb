"""SHA-256 of files, which may be larger than memory."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import IO


def stream_digest(file: IO[bytes]) -> str:
    """Return the SHA-256 (hex) of the rest of an open file."""
    digest = hashlib.sha256()
    while part := file.read(1 << 20):
        digest.update(part)
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 (hex) of a file, or an empty string if it is unreadable or no file."""
    try:
        if not path.is_file():  # reading a pipe would block
            return ""
        with path.open("rb") as file:
            return stream_digest(file)
    except OSError:
        return ""
