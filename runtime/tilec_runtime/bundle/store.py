"""The files of the cache.

They are addressed by kind and name, written atomically, and verified when read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import stat
import struct
import zlib
from collections.abc import Iterator
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
_NAME = re.compile(r"[0-9a-f]{64}")
_TEMP = re.compile(r"tmp-(\d+)-[0-9a-f]+")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# This directory is a cache of tilec: it may be removed at any time.\n"


class DamagedError(Exception):
    """A file of the cache is damaged; the message is a clause, `it is cut short`."""


class ExposedError(PermissionError):
    """Other users can change a folder of the cache; `strerror` has folder and reason."""


def path_of(root: Path, kind: str, name: str) -> str:
    """Return the path of a file."""
    return f"{root}/{FORMAT}/{kind}/{name[:2]}/{name}"


def load(path: str, *, now: float) -> tuple[Any, str, int, int] | None:
    """Return the meta, its SHA-256, and offset and size of the data, or None.

    None stands for a missing file. The file's time of last use is updated. The data is verified by
    a CRC-32, which detects accidents at a tenth of the cost of a SHA-256; the user of the image
    verifies its SHA-256.

    Raises:
        DamagedError: the file is damaged, or other users can change it.
        ExposedError: other users can change its directory.
        OSError: the file cannot be read.
    """
    file = _read_file(path, now)
    return (
        None if file is None else (file.meta, file.row, file.offset, len(file.data) - file.offset)
    )


def read(path: str, *, now: float) -> tuple[Any, bytes] | None:
    """Return (meta, data) of a file, or None if it is missing.

    Both come from one file, even if another process replaces it meanwhile.

    Raises:
        DamagedError, OSError: as for `load`.
    """
    file = _read_file(path, now)
    return None if file is None else (file.meta, file.data[file.offset :])


def _read_file(path: str, now: float) -> _File | None:
    """Read a whole file, or return None if it is missing; `now` is the time of this use."""
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
        file = _parse(fd, status.st_size)
        if now - status.st_mtime > TOUCH_AFTER:
            with contextlib.suppress(OSError):  # a read-only disk
                os.utime(fd)
    finally:
        os.close(fd)
    return file


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


class _File(NamedTuple):
    """A file's meta, the meta's SHA-256, the file's bytes, and the data's offset."""

    meta: Any
    row: str
    data: bytes
    offset: int


def _parse(fd: int, length: int) -> _File:
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
    return _File(json.loads(meta.decode()), digest.hex(), data, end)


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
