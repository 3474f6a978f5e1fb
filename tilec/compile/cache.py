"""The content-addressed cache of images and small records, in a user's private directory."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilec.compile import cache_files
from tilec.compile.events import Blob, Done
from tilec.model.codec import decode, encode
from tilec_runtime.bundle import store
from tilec_runtime.bundle.place import exposed_folders, private_root
from tilec_runtime.bundle.store import DamagedError, ExposedError
from tilec_runtime.errors import Diagnostic
from tilec_runtime.model.digest import canonical_json, sha256
from tilec_runtime.model.image import Image, ImageInfo
from tilec_runtime.model.signature import AbiSlot

DEFAULT_MAX_BYTES = 2 << 30
_IMAGES, _RECORDS = store.KINDS[:2]
_SWEEP_AFTER = 600.0  # seconds between two sweeps, unless a build writes much


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CacheInfo:
    """Number of entries, bytes, age of the oldest entry in seconds, and directory.

    The age counts from the last use.
    """

    entries: int
    bytes: int
    oldest: float
    path: str


class Cache:
    """A cache of images by key and JSON values by name.

    Failures become notes, not exceptions.

    Trust in the cache rests on the directory's permissions: a directory that other users can change
    is neither read nor written. Digests detect accidental damage.

    Args:
        root: directory, created on the first write; None for an empty cache.
        max_bytes: size to which `trim` reduces the cache; it removes the least recently used
            entries first.
        note: gets a text for each damaged entry, for each kind of failure to read or write, and
            for an unused directory.

    Attributes:
        folder: the directory, even if unused; `info`, `gc` and `clear` apply to it.
        root: the directory, or None if it is unused.
        noted: all texts that `note` has got.
    """

    def __init__(
        self,
        root: Path | None,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        note: Callable[[str], None],
    ) -> None:
        self._note = note
        self.noted: set[str] = set()
        self.folder = root
        self.root = private_root(root, self._note_once)
        self.max_bytes = max_bytes
        self._written = 0
        self._abis: dict[str, tuple[AbiSlot, ...]] = {}

    def get(self, key: str) -> Done | None:
        """Return the image of `key`, or None on a miss.

        The index row is verified by its digest, the image's bytes by a CRC; `Blob.read` verifies
        their digest too.
        """
        if self.root is None:
            return None
        path = store.path_of(self.root, _IMAGES, key)
        try:
            entry = store.read(path, now=time.time())
            return None if entry is None else self._done(key, path, entry)
        except OSError as exc:
            self._unreadable(exc)
        except (DamagedError, ValueError, TypeError, LookupError, RecursionError) as exc:
            self._note_once(f"cache entry {key[:12]} was damaged ({exc}): it is compiled again")
            self.drop(key)
        return None

    def put(self, key: str, image: Image, row: bytes) -> Blob | None:
        """Store an image with its index row; return None if this fails."""
        if self.root is None:
            return None
        try:
            offset = self.save(key, row, image.data)
        except OSError as exc:
            self.note_unwritable(exc)
            return None
        self._written += len(image.data)
        return Blob(
            path=store.path_of(self.root, _IMAGES, key),
            offset=offset,
            size=len(image.data),
            digest=image.info.digest,
        )

    def save(self, key: str, row: bytes, data: bytes) -> int:
        """Store an image with its index row; return its offset in the entry's file.

        Raises:
            OSError: it cannot be written.
        """
        assert self.root is not None
        return store.save(self.root, _IMAGES, key, row, data)

    def read(self, key: str, row: str) -> tuple[bytes, bytes] | None:
        """Return an image's index row and bytes, or None if missing.

        Args:
            key: the key.
            row: SHA-256 of the index row.

        Raises:
            DamagedError, OSError: it cannot be read, or is another image.
        """
        assert self.root is not None
        entry = store.read(store.path_of(self.root, _IMAGES, key), now=time.time())
        if entry is None:
            return None
        meta, data = canonical_json(entry.meta), entry.data
        if sha256(meta) != row or entry.meta["info"]["digest"] != sha256(data):
            raise DamagedError("the image has another digest")
        return meta, data

    def drop(self, key: str) -> None:
        """Remove an image if it exists."""
        if self.root is not None:
            store.remove(store.path_of(self.root, _IMAGES, key))

    def wrote(self, size: int) -> None:
        """Count bytes that a worker added, for `trim`."""
        self._written += size

    def get_record(self, key: str) -> Any | None:
        """Return the JSON value stored under `key`, or None."""
        if self.root is None:
            return None
        path = store.path_of(self.root, _RECORDS, sha256(key.encode()))
        try:
            entry = store.read(path, now=time.time())
            return None if entry is None else _record(key, entry.meta)
        except OSError as exc:
            self._unreadable(exc)
        except (DamagedError, ValueError) as exc:
            self._note_once(f"cache record {key[:40]} was damaged ({exc}): it is made again")
            store.remove(path)
        return None

    def put_record(self, key: str, value: Any) -> None:
        """Store a small JSON value; values without a JSON form are ignored."""
        if self.root is None:
            return
        try:
            store.save(
                self.root,
                _RECORDS,
                sha256(key.encode()),
                canonical_json({"key": key, "value": value}),
                b"",
            )
        except OSError as exc:
            self.note_unwritable(exc)
        except (ValueError, TypeError):
            return

    def info(self) -> CacheInfo:
        """Return the current state of the cache."""
        rows = [row for row in self._files() if not cache_files.is_temp(row[2])]
        oldest = max(0.0, time.time() - min(row[0] for row in rows)) if rows else 0.0
        return CacheInfo(
            entries=len(rows),
            bytes=sum(row[1] for row in rows),
            oldest=oldest,
            path=str(self.folder or ""),
        )

    def gc(self, max_bytes: int | None = None) -> int:
        """Remove entries beyond `max_bytes`, oldest use first; return the freed bytes.

        Temporary files of dead processes are removed too.
        """
        bound = self.max_bytes if max_bytes is None else max_bytes
        now = time.time()
        freed, kept, rows = 0, 0, []
        for used, size, path in self._files():
            if not cache_files.is_temp(path):
                rows.append((used, size, path))
                kept += size
            elif cache_files.is_stale(path, now - used):
                freed += store.remove(path, size)
        for _, size, path in sorted(rows):
            if kept <= bound:
                break
            gone = store.remove(path, size)
            kept -= gone
            freed += gone
        return freed

    def trim(self) -> None:
        """Reduce the cache to its limit at the end of a build that added to it.

        A sweep reads the status of every entry, so small additions wait for a later sweep.
        """
        written, self._written = self._written, 0
        if self.root is None or not written:
            return
        marker = self.root / store.FORMAT / "swept"
        with contextlib.suppress(OSError):
            if (
                written < self.max_bytes // 20
                and time.time() - marker.lstat().st_mtime < _SWEEP_AFTER
            ):
                return
        self.gc()
        with contextlib.suppress(OSError):
            os.close(
                os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            )
            os.utime(marker, follow_symlinks=False)

    def clear(self) -> int:
        """Remove all entries; return the freed bytes.

        Running builds compile missing images again.
        """
        return 0 if self.folder is None else cache_files.clear(self.folder)

    def _files(self) -> list[tuple[float, int, str]]:
        return [] if self.folder is None else list(cache_files.files(self.folder))

    def _done(self, key: str, path: str, entry: store.Entry) -> Done:
        meta = entry.meta
        if meta["key"] != key:
            raise DamagedError("it belongs to another key")
        info = decode(ImageInfo, meta["info"])
        if info.size != entry.size:
            raise DamagedError("the image has another size")
        # Many images share few ABIs: each is decoded and stored once.
        text = meta["abi"]
        abi = self._abis.get(text)
        if abi is None:
            abi = self._abis[text] = decode(tuple[AbiSlot, ...], json.loads(text))
        blob = Blob(path=path, offset=entry.offset, size=entry.size, digest=info.digest)
        return Done(
            cached=True,
            seconds=0.0,
            row=entry.row,
            info=info,
            abi=abi,
            warnings=decode(tuple[Diagnostic, ...], meta["warnings"]),
            blob=blob,
        )

    def _unreadable(self, exc: OSError) -> None:
        self._unusable(
            exc,
            f"the cache cannot be read ({exc.strerror}: {self.root}): what is in it is compiled again",
        )

    def note_unwritable(self, exc: OSError) -> None:
        """Note that the cache cannot be written."""
        text = f"the cache cannot be written ({exc.strerror}: {self.root}): this build goes on, the next one compiles again"
        self._unusable(exc, text)

    def _unusable(self, exc: OSError, text: str) -> None:
        if isinstance(exc, ExposedError):
            self.noted.add(exposed_folders(self.root, str(exc.strerror), self._note))
        else:
            self._note_once(text)

    def _note_once(self, text: str) -> None:
        if text not in self.noted:
            self.noted.add(text)
            self._note(text)


def index_row(key: str, image: Image) -> bytes:
    """Return the index row of an image: its properties and its digest.

    Raises:
        TypeError, ValueError: the image has invalid values.
    """
    abi = json.dumps(encode(image.abi), separators=(",", ":"))
    return canonical_json(
        {"key": key, "info": encode(image.info), "abi": abi, "warnings": encode(image.warnings)}
    )


def _record(key: str, meta: Any) -> Any:
    if not isinstance(meta, dict) or meta.get("key") != key:
        raise DamagedError("it belongs to another key")
    return meta.get("value")
