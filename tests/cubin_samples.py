"""Cubins put together byte by byte: as much of the format as the reader reads."""

from __future__ import annotations

import struct
from dataclasses import dataclass


@dataclass(frozen=True)
class Attribute:
    """An attribute with a payload; `stated` is the length that its header claims."""

    number: int
    payload: bytes
    stated: int | None = None

    def encode(self) -> bytes:
        length = len(self.payload) if self.stated is None else self.stated
        return struct.pack("<BBH", 4, self.number, length) + self.payload


def build_cubin(*, extra: tuple[Attribute, ...] = ()) -> bytes:
    """One kernel `k`: 40 registers, 96 bytes of stack, 256 of shared memory, three parameters, at
    most 256 threads, clusters of two.
    """
    facts = [
        Attribute(0x2F, struct.pack("<II", 1, 40)),
        Attribute(0x11, struct.pack("<II", 1, 64)),
        Attribute(0x12, struct.pack("<II", 1, 96)),
    ]
    attributes = [
        Attribute(0x45, struct.pack("<IHHI", 0, 2, 16, 20000)),
        Attribute(0x17, struct.pack("<IHHI", 0, 1, 8, 4 << 18 | 0x1F000)),
        Attribute(0x17, struct.pack("<IHHI", 0, 0, 0, 8 << 18 | 0x1F000)),
        Attribute(0x05, struct.pack("<III", 256, 1, 1)),
        Attribute(0x3D, struct.pack("<III", 2, 1, 1)),
        *extra,
    ]
    # An attribute without a payload, and one with a single byte, stand between the others.
    info = (
        struct.pack("<BBH", 1, 0x3E, 0)
        + struct.pack("<BBH", 2, 0x4C, 0x01)
        + b"".join(a.encode() for a in attributes)
    )
    names = b"\0k\0"
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0x10, 6, 0, 128)
    compat = struct.pack("<BBH", 2, 9, 0)
    bodies = [
        (".strtab", 3, names, 0),
        (".symtab", 2, symbols, 1),
        (".nv.info", 0x70000000, b"".join(a.encode() for a in facts), 0),
        (".nv.compat", 0x70000000, compat, 0),
        (".nv.info.k", 0x70000000, info, 0),
        (".text.k", 1, bytes(128), 0),
        (".nv.constant0.k", 1, bytes(552), 0),
        (".nv.shared.reserved.0", 8, 0, 0),
        (".nv.shared.k", 8, 1024 + 256, 0),
    ]
    return _elf(bodies)


def _elf(bodies: list[tuple[str, int, bytes | int, int]]) -> bytes:
    strings = b"\0"
    rows = [struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)]
    data = bytearray(64)
    for name, kind, body, link in bodies:
        size = body if isinstance(body, int) else len(body)
        rows.append(
            struct.pack(
                "<IIQQQQIIQQ",
                len(strings),
                kind,
                0,
                0,
                len(data),
                size,
                link,
                0,
                4,
                24 if kind == 2 else 0,
            )
        )
        strings += name.encode() + b"\0"
        data += b"" if isinstance(body, int) else body
    rows.append(
        struct.pack("<IIQQQQIIQQ", len(strings), 3, 0, 0, len(data), len(strings) + 10, 0, 0, 1, 0)
    )
    strings += b".shstrtab\0"
    data += strings
    table = len(data)
    data += b"".join(rows)
    ident = b"\x7fELF\x02\x01\x01\x41" + b"\x08" + bytes(7)
    struct.pack_into(
        "<16sHHIQQQIHHHHHH",
        data,
        0,
        ident,
        2,
        190,
        1,
        0,
        0,
        table,
        0x06005A04,
        64,
        56,
        0,
        64,
        len(rows),
        len(rows) - 1,
    )
    return bytes(data)
