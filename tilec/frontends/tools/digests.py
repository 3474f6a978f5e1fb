"""Digests of large files, such as compilers, and of rows in wheels' file lists."""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Iterable
from pathlib import Path

from tilec.model.digest import stream_digest
from tilec_runtime.bundle import store
from tilec_runtime.bundle.place import exposure
from tilec_runtime.model.digest import canonical_json, sha256

_KIND = store.KINDS[1]


def file_sha256(path: Path, state_dir: str = "") -> str:
    """Return the hex SHA-256 of a file, from a record in the cache in `state_dir` if there is one.

    A record is valid for one status of the file. One that is damaged, or that other users can
    change, counts as missing.

    Raises:
        OSError: the file cannot be read.
    """
    stat = path.stat()
    # A program can restore size and modification time, but not the change time.
    stamp = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
    name = sha256(canonical_json({"path": str(path), "stamp": stamp}))
    root = Path(state_dir) if state_dir and not exposure(Path(state_dir)) else None
    if root is not None:
        with contextlib.suppress(OSError, store.DamagedError):
            entry = store.read(store.path_of(root, _KIND, name), now=time.time())
            if entry is not None:
                return str(entry.meta["sha256"])
    with path.open("rb") as file:
        digest = stream_digest(file)
    if root is not None:
        with contextlib.suppress(OSError):
            store.save(root, _KIND, name, canonical_json({"sha256": digest}), b"")
    return digest


def actual_rows(site: Path, rows: Iterable[str]) -> list[str]:
    """Return rows of a wheel's file list (`path,sha256=…,size`) for files in `site`.

    Raises:
        OSError: a file cannot be read.
    """
    actual = []
    for row in rows:
        name = row.split(",", 1)[0]
        digest = (
            base64.urlsafe_b64encode(bytes.fromhex(file_sha256(site / name))).rstrip(b"=").decode()
        )
        actual.append(f"{name},sha256={digest},{(site / name).stat().st_size}")
    return actual
