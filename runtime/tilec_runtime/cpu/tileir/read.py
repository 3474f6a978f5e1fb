"""A reader for Tile IR bytecode, versions 13.1 to 13.4."""

from __future__ import annotations

import numpy as np

from tilec_runtime.cpu.tileir.ir import (
    Function,
    Global,
    Loc,
    Module,
    Scalar,
    Signature,
    Tile,
    Value,
    Version,
)
from tilec_runtime.cpu.tileir.read_ops import Attributes, OpReader
from tilec_runtime.cpu.tileir.tables import (
    Constants,
    Cursor,
    Items,
    Locs,
    Strings,
    Table,
    damaged,
    string,
)
from tilec_runtime.cpu.tileir.types import Types
from tilec_runtime.cpu.tileir.values import Array
from tilec_runtime.errors import TileIRError

MAGIC = b"\x7fTileIR\x00"
OLDEST: Version = (13, 1)
NEWEST: Version = (13, 4)
MAX_SIZE = 64 << 20  # bytes; a kernel's module has a few thousand

_END, _STRING, _FUNCTION, _DEBUG, _CONSTANT, _TYPE, _GLOBAL, _PRODUCER = range(8)
_SECTIONS = {
    _STRING: "string section",
    _FUNCTION: "function section",
    _DEBUG: "debug section",
    _CONSTANT: "constant section",
    _TYPE: "type section",
    _GLOBAL: "global section",
    _PRODUCER: "producer section",
}
_ENTRY, _HINTS = 0x02, 0x04
_FUNCTION_ITEMS = 16  # cost of a function in the file's budget


def read_module(data: bytes) -> Module:
    """Read a bytecode file.

    Whether operations fit their operands is not checked: compilers and drivers verify this.
    `faults.fitting` reports it where an operation is used.

    Raises:
        TileIRError: the file is damaged, or has an unknown version, operation or type.
    """
    version = read_version(data)
    sections = _sections(Cursor(data, "file", len(MAGIC) + 4))
    strings = Items(_table(sections, _STRING, 4), string)
    types = Types(_table(sections, _TYPE, 4), version)
    constants = Items(_table(sections, _CONSTANT, 8), lambda item: item.take(item.size()))
    attributes = Attributes(strings, types, constants)
    debug = _Debug(sections.get(_DEBUG), strings)
    functions = _functions(sections.get(_FUNCTION), version, strings, types, attributes, debug)
    producer = sections.get(_PRODUCER)
    return Module(
        version=version,
        functions=functions,
        globals=_globals(sections.get(_GLOBAL), version, strings, types, constants),
        producer=strings[producer.varint()] if producer else "",
    )


def too_large_tile(data: bytes) -> tuple[int, ...]:
    """Return the extents of the first too large tile, or an empty tuple.

    Compilers write such bytecode without an error.

    Raises:
        TileIRError: the file is damaged.
    """
    version = read_version(data)
    sections = _sections(Cursor(data, "file", len(MAGIC) + 4))
    return Types(_table(sections, _TYPE, 4), version).too_large()


def read_version(data: bytes) -> Version:
    """Read the version of a bytecode file.

    Raises:
        TileIRError: the file is not Tile IR, or its version is unknown.
    """
    if data[: len(MAGIC)] != MAGIC:
        raise damaged("it does not start as Tile IR does")
    if len(data) > MAX_SIZE:
        raise damaged(f"it has {len(data)} bytes, more than {MAX_SIZE}")
    head = Cursor(data, "header", len(MAGIC))
    version, tag = (head.byte(), head.byte()), int.from_bytes(head.take(2), "little")
    if not OLDEST <= version <= NEWEST or tag:
        shown = ".".join(map(str, (*version, tag) if tag else version))
        raise TileIRError(
            f"Tile IR version {shown} is not supported",
            cause=f"versions {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]} are, without preview features",
            fix="build with a toolkit of one of these versions, or take a newer tilec",
        )
    return version


def _sections(cursor: Cursor) -> dict[int, Cursor]:
    sections: dict[int, Cursor] = {}
    while (tag := cursor.byte()) != _END:
        number, aligned = tag & 0x7F, tag & 0x80
        if number not in _SECTIONS or number in sections:
            raise cursor.fail(f"section {number} is not known or there twice")
        size = cursor.varint()
        if aligned:
            alignment = cursor.varint()
            if not 1 <= alignment <= 4096 or alignment & (alignment - 1):
                raise cursor.fail(f"an alignment of {alignment} bytes does not make sense")
            cursor.align(alignment)
        sections[number] = cursor.inner(size, _SECTIONS[number])
    return sections


def _table(sections: dict[int, Cursor], number: int, width: int) -> Table:
    cursor = sections.get(number)
    return Table(cursor, width, cursor.at if cursor else 0)


class _Debug:
    """The debug section: locations of operations."""

    def __init__(self, cursor: Cursor | None, strings: Strings) -> None:
        self._bounds: Array = np.zeros(1, np.int64)
        self._indices: Array = np.zeros(0, np.uint64)
        if cursor is None:
            self._locs = Locs(Table(None, 4, 0), strings)
            return
        base = cursor.at
        number = cursor.size()
        cursor.align(4, base)
        starts = np.frombuffer(cursor.take(4 * number), "<u4").astype(np.int64)
        total = cursor.size()
        cursor.align(8, base)
        self._indices = np.frombuffer(cursor.take(8 * total), "<u8")
        self._bounds = np.append(starts, total)
        if (self._bounds[1:] < self._bounds[:-1]).any():
            raise cursor.fail("functions share debug information")
        self._locs = Locs(Table(cursor, 4, base), strings)

    def of_function(self, number: int) -> list[Loc | None]:
        """Return the locations of a function and its operations, if there are any.

        `number` counts from 1.
        """
        if number == 0 or len(self._bounds) == 1:
            return []
        if number >= len(self._bounds):
            raise damaged(
                f"a function refers to debug information {number} of {len(self._bounds) - 1}"
            )
        return [
            self._locs[int(index)]
            for index in self._indices[self._bounds[number - 1] : self._bounds[number]]
        ]


def _functions(
    cursor: Cursor | None,
    version: Version,
    strings: Strings,
    types: Types,
    attributes: Attributes,
    debug: _Debug,
) -> tuple[Function, ...]:
    if cursor is None:
        raise damaged("it has no functions")
    functions = []
    for _ in range(cursor.count()):
        name = strings[cursor.varint()]
        signature = types[cursor.varint()]
        if not isinstance(signature, Signature):
            raise cursor.fail(f"the type of {name} is no function's")
        flags = cursor.byte()
        locs = debug.of_function(cursor.varint())
        cursor.spend(_FUNCTION_ITEMS + len(locs) + len(signature.params))
        hints = attributes.hints(cursor) if flags & _HINTS else None
        body = cursor.inner(cursor.varint(), f"function {name}")
        reader = OpReader(version, types, attributes, locs[1:])
        params = tuple(Value(index, kind) for index, kind in enumerate(signature.params))
        functions.append(
            Function(
                name=name,
                signature=signature,
                entry=bool(flags & _ENTRY),
                hints=hints,
                body=reader.body(body, params),
                loc=locs[0] if locs else None,
            )
        )
    return tuple(functions)


def _globals(
    cursor: Cursor | None, version: Version, strings: Strings, types: Types, constants: Constants
) -> tuple[Global, ...]:
    variables = []
    for _ in range(cursor.count() if cursor else 0):
        assert cursor is not None
        name, kind, data, alignment = (
            strings[cursor.varint()],
            types[cursor.varint()],
            constants[cursor.varint()],
            cursor.varint(),
        )
        private, constant = (
            (bool(cursor.byte()), bool(cursor.varint())) if version >= (13, 3) else (False, False)
        )
        if not isinstance(kind, Tile) or not isinstance(kind.element, Scalar):
            raise cursor.fail(f"the global {name} is no tile of numbers")
        variables.append(
            Global(
                name=name,
                type=kind,
                data=data,
                alignment=alignment,
                constant=constant,
                private=private,
            )
        )
    return tuple(variables)
