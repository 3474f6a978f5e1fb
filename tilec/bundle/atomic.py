"""Files that appear whole or not at all: written next to their place, then renamed into it."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tilec.errors import OutputError

_CAUSES = {
    errno.ENOSPC: ("the disk is full", "free some space, or choose an output directory on another disk"),
    errno.EDQUOT: ("the disk quota is used up", "free some space, or choose an output directory elsewhere"),
    errno.EROFS: ("the file system is read-only", "choose an output directory that can be written"),
    errno.EACCES: ("the directory may not be written by this user", "change its permissions, or choose another output directory"),
    errno.EPERM: ("the directory may not be written by this user", "change its permissions, or choose another output directory"),
    errno.ENOENT: ("the directory does not exist, or was removed meanwhile", "create it, or choose another output directory"),
    errno.ENOTDIR: ("a part of the path is a file, not a directory", "choose another output directory"),
    errno.EISDIR: ("a directory of that name is in the way", "remove it, or choose another output directory"),
    errno.ENAMETOOLONG: ("the path is too long for the file system", "choose a shorter output directory or package name"),
}


@contextlib.contextmanager
def atomic_write(path: Path, *, mode: int = 0o644) -> Iterator[BinaryIO]:
    """A file that replaces `path` when the block ends without an error; until then, and on any error, `path` is as it was.

    The data is on disk before the name is: a crash leaves the old file or the new one. Missing parent directories are made.

    Args:
        path: the file to write.
        mode: its permissions.

    Yields:
        A new, seekable binary file in `path`'s directory.

    Raises:
        OutputError: the file cannot be written; the temporary file is gone.
    """
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name[:60]}.", suffix=".tmp", dir=path.parent)
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(temporary).replace(path)
        temporary = ""
    except OSError as exc:
        raise output_error(path, exc) from exc
    finally:
        if temporary:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()


def write_if_changed(path: Path, data: bytes) -> bool:
    """Give `path` the content `data`, without touching it where it has it already.

    Returns:
        Whether the file was written.

    Raises:
        OutputError: the file cannot be written.
    """
    with contextlib.suppress(OSError):
        if path.stat().st_size == len(data) and path.read_bytes() == data:
            return False
    with atomic_write(path) as file:
        file.write(data)
    return True


def output_error(path: Path, exc: OSError) -> OutputError:
    """An OSError met while writing `path`, as the error that users see."""
    cause, fix = _CAUSES.get(exc.errno or 0, ("", "check the output directory, or choose another one"))
    return OutputError(f"cannot write {path}: {exc.strerror or exc}", cause=cause, fix=fix)
