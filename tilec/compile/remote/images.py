"""Images in a store: written atomically for readers, and verified on reading."""

from __future__ import annotations

import dataclasses
import json
import re

from tilec.compile.remote.action_result import LIMIT, ActionResult, Digest, decode, encode
from tilec.compile.remote.store import Kind, RemoteStore, TooLargeError
from tilec_runtime.model.digest import sha256

ROW, IMAGE = "row.json", "image.bin"
MOST_ROW = 1 << 20
MOST_IMAGE = 256 << 20
_HEX = re.compile(r"[0-9a-f]{64}")


class WrongEntryError(Exception):
    """An entry is not a valid image of its key; the message is a clause."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A verified image.

    Attributes:
        row: bytes of its index row.
        digest: SHA-256 of `row`.
        data: bytes of the image.
        seconds: compile time reported by the entry's writer, not verified.
    """

    row: bytes
    digest: str
    data: bytes
    seconds: float


def put_image(
    store: RemoteStore, key: str, row: bytes, data: bytes, *, seconds: float = 0.0
) -> str:
    """Write an image under a job's key, and return the SHA-256 of its index row.

    The entry that refers to the objects is written last.

    Raises:
        RemoteError: the store failed.
    """
    digests = {}
    for path, content in ((IMAGE, data), (ROW, row)):
        digests[path] = Digest(sha256(content), len(content))
        store.put("cas", digests[path].hash, content)
    store.put("ac", name_of(key), encode(ActionResult(files=digests, seconds=seconds)))
    return digests[ROW].hash


def get_image(store: RemoteStore, key: str, *, row: str = "") -> Entry | None:
    """Return the image of a key, or None on a miss.

    Args:
        store: the store, whose data is not trusted.
        key: cache key of the job.
        row: required SHA-256 of the index row. Without it, the store's writers are trusted for the
            choice of the image, but all digests are still verified.

    Raises:
        WrongEntryError: the entry is another image, or invalid.
        RemoteError: the store failed.
    """
    message = _object(store, "ac", name_of(key), LIMIT)
    if message is None:
        return None
    try:
        result = decode(message)
    except ValueError as exc:
        raise WrongEntryError(str(exc)) from exc
    row_at, image_at = result.files.get(ROW), result.files.get(IMAGE)
    if row_at is None or image_at is None:
        raise WrongEntryError("its action result is not tilec's")
    if row and row_at.hash != row:
        raise WrongEntryError("it is another image than the one that tilec.lock pins")
    index = _verified(store, row_at, MOST_ROW)
    if index is None:
        return None
    digest, size = _facts(key, index)
    if (digest, size) != (image_at.hash, image_at.size):
        raise WrongEntryError("its image is not that of its index row")
    data = _verified(store, image_at, MOST_IMAGE)
    if data is None:
        return None
    return Entry(row=index, digest=row_at.hash, data=data, seconds=result.seconds)


def has_image(store: RemoteStore, key: str) -> bool:
    """Return whether the store has an image with all objects, without reading them.

    Stores with eviction do not know which objects belong together.

    Raises:
        RemoteError: the store failed.
    """
    if not store.has("ac", name_of(key)):
        return False
    try:
        message = _object(store, "ac", name_of(key), LIMIT)
        files = decode(message).files if message else {}
    except (ValueError, WrongEntryError):
        return False
    return bool(files) and all(store.has("cas", digest.hash) for digest in files.values())


def name_of(key: str) -> str:
    """Return the name of a key on servers: 64 hexadecimal digits."""
    return key if _HEX.fullmatch(key) else sha256(key.encode())


def _verified(store: RemoteStore, digest: Digest, limit: int) -> bytes | None:
    """Return an object after verifying its digest, or None if it was evicted."""
    if digest.size > limit:
        raise WrongEntryError(f"it claims {digest.size} bytes, and the most is {limit}")
    data = _object(store, "cas", digest.hash, digest.size)
    if data is not None and (len(data) != digest.size or sha256(data) != digest.hash):
        raise WrongEntryError("its bytes are not those of its digest")
    return data


def _object(store: RemoteStore, kind: Kind, name: str, limit: int) -> bytes | None:
    try:
        return store.get(kind, name, limit)
    except TooLargeError as exc:
        raise WrongEntryError("it is larger than it says") from exc


def _facts(key: str, index: bytes) -> tuple[str, int]:
    """Return the image's digest and size from the index row of the key."""
    try:
        row = json.loads(index)
        of, digest, size = row["key"], row["info"]["digest"], row["info"]["size"]
    except (ValueError, TypeError, LookupError, RecursionError) as exc:
        raise WrongEntryError("its index row cannot be read") from exc
    if of != key:
        raise WrongEntryError("it belongs to another key")
    return digest, size
