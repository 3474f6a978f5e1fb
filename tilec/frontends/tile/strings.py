"""Rewrite strings in Tile IR bytecode: nvcc writes absolute file names into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilec_runtime.cpu.tileir.tables import Cursor

_END, _STRINGS = 0, 1
_ALIGNED = 0x80
_WIDTH = 4


def with_strings(data: bytes, change: Callable[[str], str]) -> bytes:
    """Return the bytecode with every string changed, all else and its alignment kept.

    Raises:
        TileIRError: the file is damaged.
    """
    from tilec_runtime.cpu.tileir.read import MAGIC
    from tilec_runtime.cpu.tileir.tables import Cursor

    made = bytearray(data[: len(MAGIC) + 4])
    cursor = Cursor(data, "file", len(made))
    while (tag := cursor.byte()) != _END:
        size = cursor.varint()
        alignment = cursor.varint() if tag & _ALIGNED else 0
        cursor.align(alignment or 1)
        body = cursor.inner(size, "section")
        content = _changed(body, change) if tag & ~_ALIGNED == _STRINGS else body.take(body.rest())
        made += bytes([tag]) + _varint(len(content)) + (_varint(alignment) if alignment else b"")
        made += bytes(-len(made) % alignment if alignment else 0) + content
    return bytes(made) + bytes([_END]) + cursor.take(cursor.rest())


def _changed(body: Cursor, change: Callable[[str], str]) -> bytes:
    from tilec_runtime.cpu.tileir.tables import Table

    table = Table(body, _WIDTH, body.at)
    items = [table[number] for number in range(len(table))]
    texts = [
        change(item.take(item.rest()).decode("utf-8", "surrogateescape")).encode(
            "utf-8", "surrogateescape"
        )
        for item in items
    ]
    head = bytearray(_varint(len(texts)))
    head += bytes(-len(head) % _WIDTH)
    end = 0
    for text in texts:
        head += end.to_bytes(_WIDTH, "little")
        end += len(text)
    return bytes(head) + b"".join(texts)


def _varint(value: int) -> bytes:
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])
