"""The fields of a protobuf ActionResult that name an image and its index row.

The messages are ActionResult, OutputFile, Digest, ExecutedActionMetadata and Duration of
https://github.com/bazelbuild/remote-apis/blob/main/build/bazel/remote/execution/v2/remote_execution.proto
in the encoding of https://protobuf.dev/programming-guides/encoding/. Servers that validate objects
under `/ac/` parse them, and may add fields, which this module skips.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping

LIMIT = 64 << 10
_SHA256 = re.compile(r"[0-9a-f]{64}")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_OUTPUT_FILES, _METADATA = 2, 9  # fields of ActionResult
_PATH, _DIGEST = 1, 2  # fields of OutputFile
_HASH, _SIZE = 1, 2  # fields of Digest
_WORKER, _VIRTUAL_DURATION = 1, 12  # fields of ExecutedActionMetadata
_SECONDS, _NANOS = 1, 2  # fields of Duration
_MOST_SECONDS = 1e6


@dataclasses.dataclass(frozen=True, slots=True)
class Digest:
    """SHA-256 and size of an object."""

    hash: str
    size: int


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ActionResult:
    """Output files by path, and their compile time in seconds."""

    files: Mapping[str, Digest]
    seconds: float = 0.0


def encode(result: ActionResult) -> bytes:
    """Encode the message; equal results give equal bytes."""
    files = b"".join(
        _bytes(
            _OUTPUT_FILES,
            _bytes(_PATH, path.encode())
            + _bytes(_DIGEST, _bytes(_HASH, digest.hash.encode()) + _number(_SIZE, digest.size)),
        )
        for path, digest in sorted(result.files.items())
    )
    seconds = min(max(result.seconds, 0.0), _MOST_SECONDS)
    duration = _number(_SECONDS, int(seconds)) + _number(_NANOS, int(seconds % 1 * 1e9))
    metadata = _bytes(_WORKER, b"tilec") + _bytes(_VIRTUAL_DURATION, duration)
    return files + _bytes(_METADATA, metadata)


def decode(data: bytes) -> ActionResult:
    """Decode a message.

    Raises:
        ValueError: the bytes are not an ActionResult with files; the text is a clause.
    """
    try:
        result = _read(data)
    except (ValueError, IndexError) as exc:
        raise ValueError("its action result cannot be read") from exc
    if not result.files:
        raise ValueError("its action result names no file")
    return result


def _read(data: bytes) -> ActionResult:
    files: dict[str, Digest] = {}
    seconds = 0.0
    for field, value in _fields(data):
        if field == _OUTPUT_FILES:
            row = dict(_fields(_as_bytes(value)))
            digest = dict(_fields(_as_bytes(row[_DIGEST]))) if _DIGEST in row else {}
            name = _as_bytes(digest.get(_HASH, b"")).decode()
            if not _SHA256.fullmatch(name):
                raise ValueError("no SHA-256")
            files[_as_bytes(row.get(_PATH, b"")).decode()] = Digest(
                name, _as_number(digest.get(_SIZE, 0))
            )
        elif field == _METADATA:
            row = dict(_fields(_as_bytes(value)))
            duration = dict(_fields(_as_bytes(row.get(_VIRTUAL_DURATION, b""))))
            seconds = (
                _as_number(duration.get(_SECONDS, 0)) + _as_number(duration.get(_NANOS, 0)) / 1e9
            )
    return ActionResult(files=files, seconds=seconds if seconds <= _MOST_SECONDS else 0.0)


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        field, kind = tag >> 3, tag & 7
        if not field:
            raise ValueError("no such field")
        if kind == _VARINT:
            value, position = _varint(data, position)
            yield field, value
            continue
        if kind == _BYTES:
            size, position = _varint(data, position)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError("no such wire type")
        if size > len(data) - position:
            raise ValueError("cut short")
        yield field, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("a number is too long")


def _number(field: int, value: int) -> bytes:
    return _encoded(field << 3 | _VARINT) + _encoded(value) if value else b""


def _bytes(field: int, value: bytes) -> bytes:
    return _encoded(field << 3 | _BYTES) + _encoded(len(value)) + value


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _as_bytes(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where bytes are due")  # noqa: TRY004 - the message is wrong
    return value


def _as_number(value: bytes | int) -> int:
    if isinstance(value, bytes) or value >= 1 << 63:
        raise ValueError("no size")
    return value
