"""Entries of jobs: a protobuf ActionResult with the index row of an image.

The messages are ActionResult, OutputFile and Digest of
https://github.com/bazelbuild/remote-apis/blob/main/build/bazel/remote/execution/v2/remote_execution.proto
in the encoding of https://protobuf.dev/programming-guides/encoding/. Servers that validate objects
under `/ac/` parse them, check that the image is there, and may add fields, which this module skips.
"""

from __future__ import annotations

from collections.abc import Iterator

LIMIT = 1 << 20
_VARINT, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}  # bytes of a value, by wire type
_OUTPUT_FILES, _ROW, _SECONDS = 2, 5, 7  # fields of ActionResult: the latter stdout and stderr
_PATH, _DIGEST = 1, 2  # fields of OutputFile
_HASH, _SIZE = 1, 2  # fields of Digest
_MOST_SECONDS = 1e6


def encode(row: bytes, *, digest: str, size: int, seconds: float) -> bytes:
    """Encode an entry; equal arguments give equal bytes.

    Args:
        row: index row of the image.
        digest: SHA-256 of the image.
        size: size of the image in bytes.
        seconds: compile time.
    """
    image = _bytes(_HASH, digest.encode()) + _number(_SIZE, size)
    file = _bytes(_PATH, b"image.bin") + _bytes(_DIGEST, image)
    return (
        _bytes(_OUTPUT_FILES, file) + _bytes(_ROW, row) + _bytes(_SECONDS, repr(seconds).encode())
    )


def decode(data: bytes) -> tuple[bytes, float]:
    """Return index row and compile time of an entry.

    Raises:
        ValueError: the bytes are not an entry of tilec.
    """
    try:
        fields = dict(_fields(data))
        row, seconds = fields[_ROW], float(fields[_SECONDS])
    except (ValueError, LookupError) as exc:
        raise ValueError("its action result is not tilec's") from exc
    return row, seconds if 0 <= seconds <= _MOST_SECONDS else 0.0


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields that are bytes."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == _VARINT:
            _, position = _varint(data, position)
            continue
        if kind == _BYTES:
            size, position = _varint(data, position)
        else:
            size = _FIXED[kind]
        if size > len(data) - position:
            raise ValueError("cut short")
        if kind == _BYTES:
            yield tag >> 3, data[position : position + size]
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
    return _encoded(field << 3 | _VARINT) + _encoded(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _encoded(field << 3 | _BYTES) + _encoded(len(value)) + value


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
