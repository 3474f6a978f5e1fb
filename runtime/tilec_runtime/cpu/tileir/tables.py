"""Tables of a Tile IR file (strings, constants, locations), decoded on first use."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from tilec_runtime.cpu.tileir.ir import Loc
from tilec_runtime.cpu.tileir.values import Array
from tilec_runtime.errors import TileIRError

_MAX_VARINT = 10  # bytes: 64 bits at 7 bits per byte
MAX_ITEMS = 500_000  # objects of one file; a large kernel has about ten thousand


class Budget:
    """The number of objects that a file may still create, to bound its memory."""

    __slots__ = ("left",)

    def __init__(self, items: int = MAX_ITEMS) -> None:
        self.left = items

    def spend(self, items: int) -> None:
        """Subtract `items`."""
        self.left -= items
        if self.left < 0:
            raise damaged(f"it has more than {MAX_ITEMS} operations, values and attributes")


class Cursor:
    """A read position in `data[start:end]`.

    Offsets in messages count from the file's start.
    """

    __slots__ = ("_budget", "_data", "at", "end", "where")

    def __init__(
        self,
        data: bytes,
        where: str,
        start: int = 0,
        end: int | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._budget = budget or Budget()
        self._data = data
        self.where = where
        self.at = start
        self.end = len(data) if end is None else end

    def fail(self, fault: str) -> TileIRError:
        """Return the error for damage at this position."""
        return damaged(f"{fault} (in the {self.where} at byte {self.at})")

    def byte(self) -> int:
        """Read one byte."""
        if self.at >= self.end:
            raise self.fail("the data ends too early")
        self.at += 1
        return self._data[self.at - 1]

    def take(self, size: int) -> bytes:
        """Read `size` bytes."""
        if size < 0 or size > self.end - self.at:
            raise self.fail("the data ends too early")
        self.at += size
        return self._data[self.at - size : self.at]

    def varint(self) -> int:
        """Read an unsigned integer, 7 bits per byte, lowest first."""
        first = self.byte()
        if first < 0x80:
            return first
        value, shift = first & 0x7F, 7
        for _ in range(_MAX_VARINT - 1):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF
            shift += 7
        raise self.fail("a number has too many bytes")

    def signed_varint(self) -> int:
        """Read a signed integer, whose lowest bit is the sign."""
        raw = self.varint()
        return ~(raw >> 1) if raw & 1 else raw >> 1

    def size(self) -> int:
        """Read a number of bytes that follow."""
        number = self.varint()
        if number > self.end - self.at:
            raise self.fail(f"a list of {number} items is longer than the data")
        return number

    def count(self) -> int:
        """Read a number of items that follow.

        Each has at least one byte, so a number beyond the remaining data is an error.
        """
        number = self.size()
        self._budget.spend(number)
        return number

    def spend(self, items: int) -> None:
        """Subtract items from the file's budget."""
        self._budget.spend(items)

    def ints(self, width: int) -> tuple[int, ...]:
        """Read a count, then signed little-endian integers of `width` bytes."""
        raw = self.take(self.count() * width)
        return tuple(
            int.from_bytes(raw[i : i + width], "little", signed=True)
            for i in range(0, len(raw), width)
        )

    def align(self, alignment: int, base: int = 0) -> None:
        """Skip padding up to a multiple of `alignment` bytes from `base`."""
        self.take(-(self.at - base) % alignment)

    def inner(self, size: int, where: str) -> Cursor:
        """Return a cursor over the next `size` bytes, and skip them."""
        start = self.at
        if size > self.end - start:
            raise self.fail(f"the {where} is longer than the data")
        self.at += size
        return Cursor(self._data, where, start, self.at, self._budget)

    def part(self, begin: int, end: int) -> Cursor:
        """Return a cursor over the bytes `begin` to `end` from here.

        This cursor does not move.
        """
        if not 0 <= begin <= end <= self.end - self.at:
            raise self.fail("an offset of a table points outside")
        return Cursor(self._data, self.where, self.at + begin, self.at + end, self._budget)

    def rest(self) -> int:
        """Return the number of remaining bytes."""
        return self.end - self.at


def damaged(fault: str) -> TileIRError:
    """Return the error for damaged Tile IR."""
    cause = "the file is damaged, cut short, or was not written by a Tile IR compiler"
    return TileIRError(f"Tile IR cannot be read: {fault}", cause=cause, fix="build it again")


_MAX_DEPTH = 64  # nesting depth of call sites; compilers stay far below
_UNKNOWN, _COMPILE_UNIT, _FILE, _LEXICAL_BLOCK, _LOC, _SUBPROGRAM, _CALL_SITE = range(7)


class Table:
    """The table of a section.

    The data is a count, offsets of `width` bytes, then the items without overlap.
    """

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
        """Return a new cursor over one item."""
        if self._data is None or not 0 <= number < len(self):
            raise damaged(f"something refers to item {number} of a table that has {len(self)}")
        return self._data.part(int(self._offsets[number]), int(self._offsets[number + 1]))


Item = TypeVar("Item")


class Items(Generic[Item]):
    """Items of a table by number, decoded on first use.

    Decoding an item may need others.
    """

    def __init__(
        self, table: Table, decode: Callable[[Cursor], Item], what: str = "items", deepest: int = 0
    ) -> None:
        self._table = table
        self._decode = decode
        self._what = what
        self._deepest = deepest
        self._depth = 0
        self._known: dict[int, Item] = {}

    def __getitem__(self, number: int) -> Item:
        if number not in self._known:
            if self._depth > self._deepest:
                raise damaged(f"{self._what} are nested too deeply")
            self._depth += 1
            self._known[number] = self._decode(self._table[number])
            self._depth -= 1
        return self._known[number]


Strings: TypeAlias = Items[str]
Constants: TypeAlias = Items[bytes]


def string(item: Cursor) -> str:
    """Decode an item of the string table."""
    try:
        return item.take(item.rest()).decode("utf-8")
    except UnicodeDecodeError as exc:
        raise item.fail("a string is not UTF-8") from exc


class Locs:
    """The table of debug locations; number 0 means none."""

    def __init__(self, table: Table, strings: Strings) -> None:
        self._table = table
        self._strings = strings
        self._items = Items(table, self._read, "debug locations", _MAX_DEPTH)

    def __getitem__(self, number: int) -> Loc | None:
        return self._items[number - 1] if number else None

    def _read(self, item: Cursor) -> Loc | None:
        tag = item.byte()
        if tag == _LOC:
            item.varint()  # skip the scope, whose file is also the location's
            file, line, column = self._strings[item.varint()], item.varint(), item.varint()
            # Columns count from 0 in Python sources, from 1 in C++ sources.
            return Loc(file, line, column + 1 if file.endswith(".py") else max(column, 1))
        if tag == _CALL_SITE:
            return _inlined(item, self[item.varint()], self[item.varint()])
        if tag == _SUBPROGRAM:
            unit = item.varint()
            return Loc(self._file(unit), item.varint(), 1)
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
    """Append the caller's location to the callee's chain of call sites."""
    chain: list[Loc] = []
    while callee is not None:
        chain.append(callee)
        callee = callee.caller
        if len(chain) > _MAX_DEPTH:
            raise item.fail("debug locations are nested too deeply")
    item.spend(len(chain))
    for frame_loc in reversed(chain):
        caller = dataclasses.replace(frame_loc, caller=caller)
    return caller
