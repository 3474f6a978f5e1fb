"""The cache's files: each is written at once or not at all, verified when read, and found by kind and name."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Part of the directory's name: raised when the files' layout or the fields that they hold change, so that old and new never meet.
FORMAT = "v3"
KINDS = ("images", "records", "jit")
TOUCH_AFTER = 3600.0  # seconds: how precise "least recently used" is, against a write for every look-up

_MAGIC = b"tilec\x00c1"
_HEAD = struct.Struct("<8sIQI32s")  # magic, bytes of meta, bytes of data, CRC-32 of data, SHA-256 of meta
_META_LIMIT = 16 << 20
_FIRST_READ = 1 << 17
_NAME = re.compile(r"[0-9a-f]{64}")
_TEMP = re.compile(r"tmp-(\d+)-[0-9a-f]+")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# This directory is a cache of tilec: it may be removed at any time.\n"


class DamagedError(Exception):
    """A file is not what was written; the message says what is off, as a clause (`it is cut short`)."""


def path_of(root: Path, kind: str, name: str) -> str:
    """Where a file lies."""
    return f"{root}/{FORMAT}/{kind}/{name[:2]}/{name}"


def load(path: str, *, now: float) -> tuple[Any, int, int] | None:
    """(meta, offset of the data, its size) of a file, or None where there is none; marks the file as used.

    The data is held against a checksum, which finds every accident at a tenth of the cost of a SHA-256; that one is for whoever uses it.

    Raises:
        DamagedError: it is not what was written.
        OSError: it cannot be read.
    """
    found = _found(path, now)
    return None if found is None else (found[0], found[1], len(found[2]) - found[1])


def read(path: str, *, now: float) -> tuple[Any, bytes] | None:
    """(meta, data) of a file, as `load` finds them: both of one file, whatever another process puts in its place meanwhile.

    Raises:
        DamagedError: it is not what was written.
        OSError: it cannot be read.
    """
    found = _found(path, now)
    return None if found is None else (found[0], found[2][found[1] :])


def _found(path: str, now: float) -> tuple[Any, int, bytes] | None:
    """(meta, offset of the data, all bytes) of a file."""
    try:
        # Neither a symbolic link nor a pipe that somebody put there is followed or waited for.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as exc:
        if exc.errno == errno.ELOOP:
            raise DamagedError("a symbolic link stands in its place") from None
        raise
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise DamagedError("it is no file")
        found = _parse(fd, facts.st_size)
        if now - facts.st_mtime > TOUCH_AFTER:
            with contextlib.suppress(OSError):  # a shared cache may belong to somebody else: then its owner's uses count
                os.utime(fd)
    finally:
        os.close(fd)
    return found


def save(root: Path, kind: str, name: str, meta: bytes, data: bytes) -> int:
    """Write a file and put it in place; gives the offset of `data` in it.

    Raises:
        OSError: it could not be written; nothing is left behind.
    """
    head = _HEAD.pack(_MAGIC, len(meta), len(data), zlib.crc32(data), hashlib.sha256(meta).digest()) + meta
    try:
        _save(root, kind, name, head, data)
    except FileNotFoundError:  # another process emptied the cache between two of our steps
        _save(root, kind, name, head, data)
    return len(head)


def remove(path: str, size: int = 0) -> int:
    """Remove a file; gives `size`, or 0 where it was not ours to remove or gone before."""
    try:
        os.unlink(path)  # noqa: PTH108  (a Path per file costs more than the call)
    except OSError:
        return 0
    return size


def files(root: Path) -> Iterator[tuple[float, int, str]]:
    """(last use, bytes, path) of every file, temporary ones and those of other formats included, and nothing that is not tilec's."""
    for version in _folders(str(root), re.compile(r"v\d+")):
        for kind in _folders(version, re.compile("|".join(KINDS))):
            for fan in _folders(kind, re.compile("[0-9a-f]{2}")):
                with contextlib.suppress(OSError), os.scandir(fan) as rows:
                    for row in rows:
                        if _NAME.fullmatch(row.name) or _TEMP.fullmatch(row.name):
                            with contextlib.suppress(OSError):
                                facts = row.stat(follow_symlinks=False)
                                yield facts.st_mtime, facts.st_size, row.path


def clear(root: Path) -> None:
    """Remove every file and folder that tilec made below `root`."""
    for version in _folders(str(root), re.compile(r"v\d+")):
        shutil.rmtree(version, ignore_errors=True)


def is_temp(path: str) -> bool:
    """Whether a path of `files` is of a file that is being written, or was when its writer died."""
    return _TEMP.fullmatch(path.rpartition("/")[2]) is not None


def is_stale(path: str, age: float) -> bool:
    """Whether the writer of a temporary file is dead; `age` in seconds."""
    match = _TEMP.fullmatch(path.rpartition("/")[2])
    # A young file's writer may be in another process namespace, where its id says nothing.
    return match is not None and age > 60 and (age > 86400 or not _alive(int(match[1])))


def _parse(fd: int, length: int) -> tuple[Any, int, bytes]:
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
    return json.loads(meta.decode()), end, data


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
        _replace(folder, name, *parts)
    finally:
        os.close(folder)


def _replace(folder: int, name: str, *parts: bytes) -> None:
    # Not synced to the disk: a file that a power cut left half written has the wrong digest and is compiled again.
    temp = f"tmp-{os.getpid()}-{os.urandom(6).hex()}"
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder)
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


def _open_folder(root: Path, kind: str, fan: str) -> int:
    """A descriptor of the folder, made if need be; below the root no symbolic link is followed."""
    try:
        fd = os.open(root, _FOLDER)
    except FileNotFoundError:
        root.mkdir(parents=True, exist_ok=True)
        fd = os.open(root, _FOLDER)
    for part in (FORMAT, kind, fan):
        try:
            inner = _open_inner(part, fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def _open_inner(name: str, parent: int) -> int:
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.mkdir(name, dir_fd=parent)
    fd = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    if name == FORMAT:
        with contextlib.suppress(OSError):
            _replace(fd, "CACHEDIR.TAG", _TAG)
    return fd


def _folders(parent: str, pattern: re.Pattern[str]) -> list[str]:
    try:
        with os.scandir(parent) as rows:
            return sorted(row.path for row in rows if pattern.fullmatch(row.name) and row.is_dir(follow_symlinks=False))
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
