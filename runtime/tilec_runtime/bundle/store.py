"""The files of the cache.

They are addressed by kind and name, written atomically, and verified when read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from tilec_runtime.bundle.place import FORMAT, KINDS, foreign

__all__ = ["FORMAT", "KINDS"]

# Seconds. The time of last use is this coarse, so that not every look-up writes to the disk.
TOUCH_AFTER = 3600.0

_MAGIC = b"tilec\x00c1"
_HEAD = struct.Struct(
    "<8sIQI32s"
)  # magic, bytes of meta, bytes of data, CRC-32 of data, SHA-256 of meta
_META_LIMIT = 16 << 20
_FIRST_READ = 1 << 17
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# This directory is a cache of tilec: it may be removed at any time.\n"


class DamagedError(Exception):
    """A file of the cache is damaged; the message is a clause, `it is cut short`."""


class ExposedError(PermissionError):
    """Other users can change a folder of the cache; `strerror` has folder and reason."""


class Entry(NamedTuple):
    """A file of the cache: meta, the meta's SHA-256, the file's bytes, and the data's offset."""

    meta: Any
    row: str
    content: bytes
    offset: int

    @property
    def data(self) -> bytes:
        """The data behind the meta."""
        return self.content[self.offset :]

    @property
    def size(self) -> int:
        """Size of the data in bytes."""
        return len(self.content) - self.offset


def path_of(root: Path, kind: str, name: str) -> str:
    """Return the path of a file."""
    return f"{root}/{FORMAT}/{kind}/{name[:2]}/{name}"


def read(path: str, *, now: float) -> Entry | None:
    """Read and verify a file, or return None if it is missing.

    The file's time of last use becomes `now`. The data is verified by a CRC-32, which detects
    accidents at a tenth of the cost of a SHA-256; the user of the image verifies its SHA-256.

    Raises:
        DamagedError: the file is damaged, or other users can change it.
        ExposedError: other users can change its directory.
        OSError: the file cannot be read.
    """
    try:
        # Do not follow a symbolic link, and do not block on a pipe.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as exc:
        if exc.errno == errno.ELOOP:
            raise DamagedError("a symbolic link stands in its place") from None
        raise
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise DamagedError("it is no file")
        folder = path.rpartition("/")[0]
        _require_own(os.lstat(folder), folder)
        if problem := foreign(status):
            raise DamagedError(f"its file {problem}")
        entry = _parse(fd, status.st_size)
        if now - status.st_mtime > TOUCH_AFTER:
            with contextlib.suppress(OSError):  # a read-only disk
                os.utime(fd)
    finally:
        os.close(fd)
    return entry


def _require_own(status: os.stat_result, path: str) -> None:
    if problem := foreign(status):
        raise ExposedError(errno.EPERM, f"{path} {problem}")


def save(root: Path, kind: str, name: str, meta: bytes, data: bytes) -> int:
    """Write a file atomically and return the offset of `data` in it.

    Directories and files are private to this user.

    Raises:
        ExposedError: other users can change the directory.
        OSError: the file could not be written; no partial file remains.
    """
    head = (
        _HEAD.pack(_MAGIC, len(meta), len(data), zlib.crc32(data), hashlib.sha256(meta).digest())
        + meta
    )
    try:
        _save(root, kind, name, head, data)
    except FileNotFoundError:  # another process cleared the cache between two steps of `_save`
        _save(root, kind, name, head, data)
    return len(head)


def remove(path: str, size: int = 0) -> int:
    """Remove a file; return `size`, or 0 if it was missing or could not be removed."""
    try:
        os.unlink(path)  # noqa: PTH108  (a Path per file costs more than the call)
    except OSError:
        return 0
    return size


def _parse(fd: int, length: int) -> Entry:
    data = os.read(fd, _FIRST_READ)
    if len(data) < _HEAD.size:
        raise DamagedError("it is cut short")
    magic, meta_size, size, checksum, digest = _HEAD.unpack_from(data)
    end = _HEAD.size + meta_size
    if magic != _MAGIC or meta_size > _META_LIMIT or end + size != length:
        raise DamagedError("its heading or its length is wrong")
    if len(data) < length:
        data += _read_exactly(fd, length - len(data))
    meta = data[_HEAD.size : end]
    if hashlib.sha256(meta).digest() != digest:
        raise DamagedError("its index row has another digest")
    if zlib.crc32(memoryview(data)[end:]) != checksum:
        raise DamagedError("the image has another checksum")
    return Entry(json.loads(meta.decode()), digest.hex(), data, end)


def _read_exactly(fd: int, count: int) -> bytes:
    parts = []
    while count > 0:
        part = os.read(fd, min(count, 1 << 24))
        if not part:
            raise DamagedError("it is cut short")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _save(root: Path, kind: str, name: str, *parts: bytes) -> None:
    folder = _open_folder(root, kind, name[:2])
    try:
        replace(folder, name, *parts, mode=0o600)
    finally:
        os.close(folder)


def replace(folder: int, name: str, *parts: bytes, mode: int) -> None:
    """Create or replace a file atomically in the directory of descriptor `folder`.

    Raises:
        OSError: the file could not be written; no partial file remains.
    """
    # No fsync: a file that a power failure left incomplete has a wrong digest, and is compiled
    # again.
    temp = f"tmp-{os.getpid()}-{os.urandom(6).hex()}"
    fd = os.open(
        temp,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
        mode,
        dir_fd=folder,
    )
    try:
        with os.fdopen(fd, "wb", buffering=0) as file:
            for part in parts:
                rest = memoryview(part)
                while rest:
                    rest = rest[file.write(rest) :]
        os.replace(temp, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temp, dir_fd=folder)
        raise


def _open_folder(root: Path, *inner: str) -> int:
    """Return a descriptor of a folder of the store; create missing folders.

    Symbolic links below the root are not followed.
    """
    try:
        fd = os.open(root, _FOLDER)
    except FileNotFoundError:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(root, _FOLDER)
    path = str(root)
    for part in (FORMAT, *inner):
        path += f"/{part}"
        try:
            below = _open_inner(part, fd)
        finally:
            os.close(fd)
        fd = below
        try:
            _require_own(os.fstat(fd), path)
        except ExposedError:
            os.close(fd)
            raise
    return fd


def _open_inner(name: str, parent: int) -> int:
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):  # another process created it meanwhile
            os.mkdir(name, 0o700, dir_fd=parent)
    fd = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    if name == FORMAT:
        with contextlib.suppress(OSError):
            replace(fd, "CACHEDIR.TAG", _TAG, mode=0o666)
    return fd
