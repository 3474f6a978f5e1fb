"""Tables of a Tile IR file (strings, constants, debug locations): found by number, decoded when first asked for."""

from __future__ import annotations

import dataclasses

import numpy as np

from tilec_runtime.cpu.tileir.cursor import Cursor, damaged
from tilec_runtime.cpu.tileir.ir import Loc
from tilec_runtime.cpu.tileir.values import Array

_MAX_DEPTH = 64  # of call sites in call sites: files of compilers stay far below
_UNKNOWN, _COMPILE_UNIT, _FILE, _LEXICAL_BLOCK, _LOC, _SUBPROGRAM, _CALL_SITE = range(7)


class Table:
    """Items of one section: a count, offsets of `width` bytes, then what they point into. Items do not overlap."""

    def __init__(self, cursor: Cursor | None, width: int, base: int) -> None:
        self._data = cursor
        self._offsets: Array = np.zeros(1, np.uint64)
        if cursor is None:
            return
        number = cursor.size()
        cursor.align(width, base)
        offsets = np.frombuffer(cursor.take(number * width), f"<u{width}").astype(np.uint64)
        self._offsets = np.append(offsets, np.uint64(cursor.rest()))
        if (self._offsets[1:] < self._offsets[:-1]).any():
            raise cursor.fail("an offset of a table points outside")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> Cursor:
        """A fresh cursor over one item."""
        if self._data is None or not 0 <= number < len(self):
            raise damaged(f"something refers to item {number} of a table that has {len(self)}")
        return self._data.part(int(self._offsets[number]), int(self._offsets[number + 1]))


class Strings:
    """The string table."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._known: dict[int, str] = {}

    def __getitem__(self, number: int) -> str:
        if number not in self._known:
            item = self._table[number]
            try:
                self._known[number] = item.take(item.rest()).decode("utf-8")
            except UnicodeDecodeError as exc:
                raise item.fail("a string is not UTF-8") from exc
        return self._known[number]


class Constants:
    """The constant table: bytes of tiles. Whoever asks for the same gets the same object."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._known: dict[int, bytes] = {}

    def __getitem__(self, number: int) -> bytes:
        if number not in self._known:
            item = self._table[number]
            self._known[number] = item.take(item.size())
        return self._known[number]


class Locs:
    """The table of debug locations; 0 is none."""

    def __init__(self, table: Table, strings: Strings) -> None:
        self._table = table
        self._strings = strings
        self._known: dict[int, Loc | None] = {0: None}

    def __getitem__(self, number: int) -> Loc | None:
        return self._get(number, 0)

    def _get(self, number: int, depth: int) -> Loc | None:
        if number not in self._known:
            if depth > _MAX_DEPTH:
                raise damaged("debug locations are nested too deeply")
            self._known[number] = self._read(self._table[number - 1], depth)
        return self._known[number]

    def _read(self, item: Cursor, depth: int) -> Loc | None:
        tag = item.byte()
        if tag == _LOC:
            item.varint()  # the scope: its file is the one that the location names
            file, line, column = self._strings[item.varint()], item.varint(), item.varint()
            # Of Python sources columns are counted from 0, of C++ sources from 1.
            return Loc(file, line, column if file.endswith(".py") else max(column - 1, 0))
        if tag == _CALL_SITE:
            return _inlined(item, self._get(item.varint(), depth + 1), self._get(item.varint(), depth + 1))
        if tag == _SUBPROGRAM:
            unit = item.varint()
            return Loc(self._file(unit), item.varint(), 0)
        if tag in (_UNKNOWN, _COMPILE_UNIT, _FILE, _LEXICAL_BLOCK):
            return None
        raise item.fail(f"debug record number {tag} is not known to this version of tilec")

    def _file(self, number: int) -> str:
        if not number:
            return ""
        item = self._table[number - 1]
        if item.byte() != _FILE:
            raise item.fail("a file is expected here")
        return self._strings[item.varint()]


def _inlined(item: Cursor, callee: Loc | None, caller: Loc | None) -> Loc | None:
    """The callee's place, and behind whatever it was inlined into already, the caller's."""
    chain: list[Loc] = []
    while callee is not None:
        chain.append(callee)
        callee = callee.caller
        if len(chain) > _MAX_DEPTH:
            raise item.fail("debug locations are nested too deeply")
    item.spend(len(chain))
    for place in reversed(chain):
        caller = dataclasses.replace(place, caller=caller)
    return caller
