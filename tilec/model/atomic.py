"""Files that are replaced whole or not at all: written beside their destinations, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, final

from tilec_runtime.errors import OutputError

_CAUSES = {
    errno.ENOSPC: (
        "the disk is full",
        "free some space, or choose an output directory on another disk",
    ),
    errno.EDQUOT: (
        "the disk quota is used up",
        "free some space, or choose an output directory elsewhere",
    ),
    errno.EROFS: ("the file system is read-only", "choose an output directory that can be written"),
    errno.EACCES: (
        "the directory may not be written by this user",
        "change its permissions, or choose another output directory",
    ),
    errno.EPERM: (
        "the directory may not be written by this user",
        "change its permissions, or choose another output directory",
    ),
    errno.ENOENT: (
        "the directory does not exist, or was removed meanwhile",
        "create it, or choose another output directory",
    ),
    **dict.fromkeys(
        (errno.ENOTDIR, errno.EEXIST),
        ("a part of the path is a file, not a directory", "choose another output directory"),
    ),
    errno.EISDIR: (
        "a directory of that name is in the way",
        "remove it, or choose another output directory",
    ),
    errno.ENAMETOOLONG: (
        "the path is too long for the file system",
        "choose a shorter output directory or package name",
    ),
}


_SUFFIX = ".tilec-new"
_STALE = 3600.0  # seconds after which no process still writes a file


@final
class Stage:
    """Files written beside their destinations, and renamed into place once all are complete.

    The context manager removes staged files that were not put in place. It also removes files that
    killed processes left in the same directories over an hour ago.
    """

    def __init__(self) -> None:
        self._waiting: dict[Path, Path] = {}
        self._swept: set[Path] = set()

    def __enter__(self) -> Stage:
        """Return the stage."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove staged files that were not put in place."""
        for temporary in self._waiting.values():
            with contextlib.suppress(OSError):
                temporary.unlink()
        self._waiting.clear()

    def add(self, path: Path, temporary: Path) -> None:
        """Add a complete file beside `path`, which gets its name at the end."""
        self._waiting[path] = temporary
        if path.parent not in self._swept:
            self._swept.add(path.parent)
            _sweep(path.parent, before=temporary.stat().st_mtime - _STALE)

    def write(self, path: Path, data: bytes) -> bool:
        """Stage a file unless it has this content already; return whether it was staged.

        Raises:
            OutputError: the file cannot be written.
        """
        return write_if_changed(path, data, stage=self)

    def where(self, path: Path) -> Path:
        """Return the path with the content of `path`: the staged file, if there is one."""
        return self._waiting.get(path, path)

    @property
    def replaced(self) -> tuple[Path, ...]:
        """The existing files that staged ones will replace."""
        return tuple(path for path in self._waiting if os.path.lexists(path) and not path.is_dir())

    def put_in_place(self) -> None:
        """Rename every file, in the order in which they were added.

        Raises:
            OutputError: a file cannot be put in place; for a directory in the way, none is.
        """
        for path in self._waiting:
            if path.is_dir():
                raise output_error(path, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
        for path in [*self._waiting]:
            try:
                self._waiting[path].replace(path)
            except OSError as exc:
                raise output_error(path, exc) from exc
            del self._waiting[path]


@contextlib.contextmanager
def atomic_write(path: Path, *, stage: Stage | None = None) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` when the block ends without an error.

    The data is on disk before the name: a crash leaves the old file or the new one. Missing parent
    directories are created.

    Args:
        path: the file to write.
        stage: the stage that renames it later, with others; None to rename it at once.

    Yields:
        A new, seekable binary file in `path`'s directory.

    Raises:
        OutputError: the file cannot be written; the temporary file is gone.
    """
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(
            prefix=f".{path.name[:60]}.", suffix=_SUFFIX, dir=path.parent
        )
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
        if stage is None:
            Path(temporary).replace(path)
        else:
            stage.add(path, Path(temporary))
        temporary = ""
    except OSError as exc:
        raise output_error(path, exc) from exc
    finally:
        if temporary:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()


def write_if_changed(path: Path, data: bytes, *, stage: Stage | None = None) -> bool:
    """Write `data` to `path`, at once or with a stage, unless it has this content already.

    Returns:
        Whether the file was written.

    Raises:
        OutputError: the file cannot be written.
    """
    with contextlib.suppress(OSError):
        status = path.stat()
        if (
            stat.S_ISREG(status.st_mode)
            and status.st_size == len(data)
            and path.read_bytes() == data
        ):
            return False
    with atomic_write(path, stage=stage) as file:
        file.write(data)
    return True


def _sweep(folder: Path, *, before: float) -> None:
    for left in folder.glob(f".*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            if left.stat().st_mtime < before:
                left.unlink()


def output_error(path: Path, exc: OSError) -> OutputError:
    """Return the error that users see for an OSError while writing `path`."""
    cause, fix = _CAUSES.get(
        exc.errno or 0, ("", "check the output directory, or choose another one")
    )
    return OutputError(f"cannot write {path}: {exc.strerror or exc}", cause=cause, fix=fix)
