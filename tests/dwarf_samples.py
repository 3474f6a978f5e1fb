"""Debug information put together byte by byte: a unit with the function `scale`, a parameter `y`, variables `index` and `loaded`."""

from __future__ import annotations

import struct

from tests.cubin_samples import build_cubin

UNIT, FUNCTION, PARAMETER, VARIABLE, BLOCK, TYPE = 0x11, 0x2E, 0x05, 0x34, 0x0B, 0x24
NAME = 0x03
STRING, LINKED, DATA1, BLOCK1, EXPRESSION, CONSTANT, ADDRESS = 0x08, 0x0E, 0x0B, 0x0A, 0x18, 0x21, 0x01

# (tag, children, attributes with their forms), counted from one
ABBREVIATIONS = [
    (UNIT, 1, [(0x25, STRING), (NAME, STRING)]),
    (FUNCTION, 1, [(0x11, ADDRESS), (NAME, STRING)]),
    (PARAMETER, 0, [(NAME, STRING), (0x02, BLOCK1)]),
    (VARIABLE, 0, [(0x3A, DATA1), (NAME, LINKED), (0x02, EXPRESSION)]),
    (BLOCK, 1, [(0x3B, CONSTANT)]),
    (TYPE, 0, [(NAME, STRING)]),
]
TEXTS = b"\0index\0loaded\0"


def dwarf_abbreviations() -> bytes:
    out = b""
    for number, (tag, children, attributes) in enumerate(ABBREVIATIONS, 1):
        out += bytes((number, tag, children))
        out += b"".join(bytes((name, form, *([7] if form == CONSTANT else []))) for name, form in attributes) + b"\0\0"
    return out + b"\0"


def dwarf_unit(version: int = 4) -> bytes:
    def variable(offset: int) -> bytes:
        return b"\x04\x01" + struct.pack("<I", offset) + b"\x02\x90\x01"

    body = b"\x01clang\0a.cu\0"
    body += b"\x02" + bytes(8) + b"scale\0" + b"\x03y\0\x01\x90" + b"\x03y\0\x01\x90"
    body += b"\x05" + variable(1) + variable(7) + b"\0"  # in a block of the function
    body += b"\x06float\0" + b"\0"
    body += variable(1) + b"\0"  # of the file: no function's
    head = struct.pack("<HBBI", version, 1, 8, 0) if version >= 5 else struct.pack("<HIB", version, 0, 8)
    return struct.pack("<I", len(head) + len(body)) + head + body


def debug_cubin(info: bytes | None = None, table: bytes | None = None) -> bytes:
    info = dwarf_unit() if info is None else info
    table = dwarf_abbreviations() if table is None else table
    return build_cubin(sections=((".debug_abbrev", table), (".debug_info", info), (".debug_str", TEXTS)))
