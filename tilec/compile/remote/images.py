"""Images in a store: written atomically for readers, and verified on reading."""

from __future__ import annotations

import dataclasses
import json
import re

from tilec.compile.remote.action_result import LIMIT, decode, encode
from tilec.compile.remote.store import Kind, RemoteStore, TooLargeError
from tilec_runtime.model.digest import sha256

MOST_IMAGE = 256 << 20
_HEX = re.compile(r"[0-9a-f]{64}")


class WrongEntryError(Exception):
    """An entry is not a valid image of its key; the message is a clause."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """The entry of a key.

    Attributes:
        row: bytes of the image's index row.
        digest: SHA-256 of the image.
        size: size of the image in bytes.
        seconds: compile time reported by the entry's writer, not verified.
    """

    row: bytes
    digest: str
    size: int
    seconds: float


def put_image(store: RemoteStore, key: str, row: bytes, data: bytes, *, seconds: float) -> None:
    """Write an image under a job's key.

    The entry that refers to the image is written last.

    Raises:
        RemoteError: the store failed.
    """
    digest = sha256(data)
    store.put("cas", digest, data)
    store.put("ac", key, encode(row, digest=digest, size=len(data), seconds=seconds))


def get_image(store: RemoteStore, key: str, *, row: str = "") -> tuple[Entry, bytes] | None:
    """Return the entry of a key with its image, or None on a miss.

    Args:
        store: the store, whose data is not trusted.
        key: cache key of the job.
        row: required SHA-256 of the index row. Without it, the store's writers are trusted for the
            choice of the image, but its digest is still verified.

    Raises:
        WrongEntryError: the entry is another image, or invalid.
        RemoteError: the store failed.
    """
    entry = _entry(store, key)
    if entry is None:
        return None
    if row and sha256(entry.row) != row:
        raise WrongEntryError("it is another image than the one that tilec.lock pins")
    data = _object(store, "cas", entry.digest, entry.size)
    if data is None:
        return None
    if (len(data), sha256(data)) != (entry.size, entry.digest):
        raise WrongEntryError("its bytes are not those of its digest")
    return entry, data


def has_image(store: RemoteStore, key: str) -> bool:
    """Return whether the store has an entry with its image, without reading the image.

    Stores with eviction do not know which objects belong together.

    Raises:
        RemoteError: the store failed.
    """
    try:
        entry = _entry(store, key)
    except WrongEntryError:
        return False
    return entry is not None and store.has("cas", entry.digest)


def _entry(store: RemoteStore, key: str) -> Entry | None:
    """Return the entry of a key, or None if there is none.

    Raises:
        WrongEntryError: the entry is of another key, or invalid.
        RemoteError: the store failed.
    """
    message = _object(store, "ac", key, LIMIT)
    if message is None:
        return None
    try:
        row, seconds = decode(message)
    except ValueError as exc:
        raise WrongEntryError(str(exc)) from exc
    try:
        index = json.loads(row)
        of, digest, size = index["key"], index["info"]["digest"], index["info"]["size"]
    except (ValueError, TypeError, LookupError, RecursionError) as exc:
        raise WrongEntryError("its index row cannot be read") from exc
    if of != key:
        raise WrongEntryError("it belongs to another key")
    sized = isinstance(size, int) and 0 <= size <= MOST_IMAGE
    if not sized or not _HEX.fullmatch(str(digest)):
        raise WrongEntryError("its index row names no image")
    return Entry(row=row, digest=digest, size=size, seconds=seconds)


def _object(store: RemoteStore, kind: Kind, name: str, limit: int) -> bytes | None:
    try:
        return store.get(kind, name, limit)
    except TooLargeError as exc:
        raise WrongEntryError("it is larger than it says") from exc
