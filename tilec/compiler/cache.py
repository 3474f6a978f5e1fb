"""The content-addressed cache of images and small records: a directory that many processes and checkouts may share."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilec.bundle import store
from tilec.bundle.store import DamagedError
from tilec.compiler.blob import Blob
from tilec.compiler.codec import decoder, encode
from tilec.errors import Diagnostic
from tilec.model.digest import canonical_json, sha256
from tilec.model.image import Image, ImageInfo
from tilec.model.signature import AbiSlot

DEFAULT_MAX_BYTES = 2 << 30
_IMAGES, _RECORDS = store.KINDS[:2]
_SWEEP_AFTER = 600.0  # seconds between two sweeps, unless a build writes much


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A compiled image in the cache, its bytes left where they are."""

    info: ImageInfo
    abi: tuple[AbiSlot, ...]
    warnings: tuple[Diagnostic, ...]
    blob: Blob


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CacheInfo:
    """What a cache holds: number of entries, bytes, seconds since the least recently used entry was used, and where it lies."""

    entries: int
    bytes: int
    oldest: float
    path: str


class Cache:
    """Look-up is `get`, never check-then-read; a failure of the cache is a note, never an exception.

    Args:
        root: its directory, made when first written to; None for a cache that holds nothing.
        max_bytes: size that `trim` brings it back to, the least recently used entries going first.
        note: gets a text for each damaged entry, and one for each kind of failure to read or write.
        clock: seconds since the epoch, as file times have them.

    Attributes:
        noted: every text that went to `note`, each once.
    """

    def __init__(
        self,
        root: Path | None,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        note: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.root = root
        self.max_bytes = max_bytes
        self._note = note
        self._clock = clock
        self.noted: set[str] = set()
        self._written = 0
        self._abis: dict[str, tuple[AbiSlot, ...]] = {}

    def get(self, key: str) -> Entry | None:
        """The image kept under `key`, or None.

        The index row is held against its digest, the image's bytes against a checksum; `Blob.read` holds them against their digest too.
        """
        if self.root is None:
            return None
        path = store.path_of(self.root, _IMAGES, key)
        try:
            found = store.load(path, now=self._clock())
            return None if found is None else self._entry(key, path, *found)
        except OSError as exc:
            self._unreadable(exc)
        except (DamagedError, ValueError, TypeError, LookupError) as exc:
            self._note_once(f"cache entry {key[:12]} was damaged ({exc}): it is compiled again")
            self.drop(key)
        return None

    def put(self, key: str, image: Image) -> Blob | None:
        """Keep an image; None where that fails, for whatever reason."""
        if self.root is None:
            return None
        try:
            abi = json.dumps(encode(image.abi), separators=(",", ":"))
            meta = canonical_json({"key": key, "info": encode(image.info), "abi": abi, "warnings": encode(image.warnings)})
        except (TypeError, ValueError):
            return None  # not what an image holds; whoever uses it will say so
        try:
            offset = store.save(self.root, _IMAGES, key, meta, image.data)
        except OSError as exc:
            self._unwritable(exc)
            return None
        self._written += len(image.data)
        return Blob(path=store.path_of(self.root, _IMAGES, key), offset=offset, size=len(image.data), digest=image.info.digest)

    def drop(self, key: str) -> None:
        """Remove an image, if it is there."""
        if self.root is not None:
            store.remove(store.path_of(self.root, _IMAGES, key))

    def wrote(self, size: int) -> None:
        """Take note of bytes that another process added on behalf of this one; `trim` goes by it."""
        self._written += size

    def get_record(self, key: str) -> Any | None:
        """The JSON value kept under `key`, or None."""
        if self.root is None:
            return None
        path = store.path_of(self.root, _RECORDS, sha256(key.encode()))
        try:
            found = store.load(path, now=self._clock())
            if found is None:
                return None
            return _record(key, found[0])
        except OSError as exc:
            self._unreadable(exc)
        except (DamagedError, ValueError) as exc:
            self._note_once(f"cache record {key[:40]} was damaged ({exc}): it is made again")
            store.remove(path)
        return None

    def put_record(self, key: str, value: Any) -> None:
        """Keep a small JSON value; does nothing for values that JSON does not have."""
        if self.root is None:
            return
        try:
            store.save(self.root, _RECORDS, sha256(key.encode()), canonical_json({"key": key, "value": value}), b"")
        except OSError as exc:
            self._unwritable(exc)
        except (ValueError, TypeError):
            return

    def info(self) -> CacheInfo:
        """What the cache holds now."""
        rows = [row for row in self._files() if not store.is_temp(row[2])]
        oldest = max(0.0, self._clock() - min(row[0] for row in rows)) if rows else 0.0
        return CacheInfo(entries=len(rows), bytes=sum(row[1] for row in rows), oldest=oldest, path=str(self.root or ""))

    def gc(self, max_bytes: int | None = None) -> int:
        """Remove the least recently used entries until `max_bytes` are kept, and what dead processes left; gives the bytes freed."""
        bound = self.max_bytes if max_bytes is None else max_bytes
        now = self._clock()
        freed, kept, rows = 0, 0, []
        for used, size, path in self._files():
            if not store.is_temp(path):
                rows.append((used, size, path))
                kept += size
            elif store.is_stale(path, now - used):
                freed += store.remove(path, size)
        for _, size, path in sorted(rows):
            if kept <= bound:
                break
            gone = store.remove(path, size)
            kept -= gone
            freed += gone
        return freed

    def trim(self) -> None:
        """At the end of a build: bring the cache back to its bound, if the build added anything; looks only now and then."""
        written, self._written = self._written, 0
        if self.root is None or not written:
            return
        marker = self.root / store.FORMAT / "swept"
        with contextlib.suppress(OSError):
            if written < self.max_bytes // 20 and self._clock() - marker.lstat().st_mtime < _SWEEP_AFTER:
                return
        self.gc()
        with contextlib.suppress(OSError):
            os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666))
            os.utime(marker, follow_symlinks=False)

    def clear(self) -> int:
        """Remove everything; gives the bytes freed. Builds that run meanwhile compile again what they miss."""
        freed = sum(size for _, size, _ in self._files())
        if self.root is not None:
            store.clear(self.root)
        return freed

    def _files(self) -> list[tuple[float, int, str]]:
        return [] if self.root is None else list(store.files(self.root))

    def _entry(self, key: str, path: str, meta: Any, offset: int, size: int) -> Entry:
        if meta["key"] != key:
            raise DamagedError("it belongs to another key")
        info = _INFO(meta["info"])
        if info.size != size:
            raise DamagedError("the image has another size")
        # Few ABIs serve many images: each is decoded and held once.
        text = meta["abi"]
        abi = self._abis.get(text)
        if abi is None:
            abi = self._abis[text] = _ABI(json.loads(text))
        blob = Blob(path=path, offset=offset, size=size, digest=info.digest)
        return Entry(info=info, abi=abi, warnings=_WARNINGS(meta["warnings"]), blob=blob)

    def _unreadable(self, exc: OSError) -> None:
        self._note_once(f"the cache cannot be read ({exc.strerror}: {self.root}): what is in it is compiled again")

    def _unwritable(self, exc: OSError) -> None:
        text = f"the cache cannot be written ({exc.strerror}: {self.root}): this build goes on, the next one compiles again"
        self._note_once(text)

    def _note_once(self, text: str) -> None:
        if text not in self.noted:
            self.noted.add(text)
            self._note(text)


def _record(key: str, meta: Any) -> Any:
    if not isinstance(meta, dict) or meta.get("key") != key:
        raise DamagedError("it belongs to another key")
    return meta.get("value")


_INFO = decoder(ImageInfo)
_ABI = decoder(tuple[AbiSlot, ...])
_WARNINGS = decoder(tuple[Diagnostic, ...])
