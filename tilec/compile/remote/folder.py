"""A store in a directory that other users may write to, such as on a network."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tilec.compile.remote.store import Kind, RemoteError, TooLargeError
from tilec_runtime.bundle import store

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Do not follow symbolic links, and do not block on pipes: other users may create them.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class FolderStore:
    """A store in a directory, in the layout of an HTTP server.

    The layout is `cas/<sha256>` and `ac/<key>`.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def get(self, kind: Kind, name: str, limit: int) -> bytes | None:
        """Return an object; see `RemoteStore`."""
        try:
            with _failing(), self._folder(kind) as folder:
                fd = os.open(name, _READ, dir_fd=folder)
                with os.fdopen(fd, "rb") as file:
                    if not stat.S_ISREG(os.fstat(fd).st_mode):
                        return None
                    data = file.read(limit + 1)
        except FileNotFoundError:
            return None
        if len(data) > limit:
            raise TooLargeError
        return data

    def has(self, kind: Kind, name: str) -> bool:
        """Return whether there is an object; see `RemoteStore`."""
        try:
            with _failing(), self._folder(kind) as folder:
                return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            return False

    def put(self, kind: Kind, name: str, data: bytes) -> None:
        """Write an object; see `RemoteStore`."""
        try:
            with _failing():
                (self._root / kind).mkdir(parents=True, exist_ok=True)
                with self._folder(kind) as folder:
                    store.replace(folder, name, data, mode=0o666)
        except FileNotFoundError as exc:
            raise RemoteError("its directory is not there and cannot be made") from exc

    def close(self) -> None:
        """Do nothing: nothing is open."""

    @contextlib.contextmanager
    def _folder(self, kind: Kind) -> Iterator[int]:
        root = os.open(self._root, _FOLDER)
        try:
            fd = os.open(kind, _FOLDER | os.O_NOFOLLOW, dir_fd=root)
        finally:
            os.close(root)
        try:
            yield fd
        finally:
            os.close(fd)


@contextlib.contextmanager
def _failing() -> Iterator[None]:
    """Turn OSError into RemoteError, except for a missing file, which is no failure."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise RemoteError(f"it cannot be used: {exc.strerror}") from exc
