"""Reads numbers out of bytes, with bounds: whatever is read lies inside, or `TileIRError` says where it does not."""

from __future__ import annotations

from tilec_runtime.errors import TileIRError

_MAX_VARINT = 10  # bytes: 64 bits at 7 a byte
MAX_ITEMS = 500_000  # things that one file may make: a large kernel has some ten thousand


class Budget:
    """How many more things a file may make, so that a small file cannot fill the memory."""

    __slots__ = ("left",)

    def __init__(self, items: int = MAX_ITEMS) -> None:
        self.left = items

    def spend(self, items: int) -> None:
        """Take `items` off."""
        self.left -= items
        if self.left < 0:
            raise damaged(f"it has more than {MAX_ITEMS} operations, values and attributes")


class Cursor:
    """A place in `data[start:end]` that moves on as it reads. Offsets in messages count from the file's start."""

    __slots__ = ("_budget", "_data", "at", "end", "where")

    def __init__(self, data: bytes, where: str, start: int = 0, end: int | None = None, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        self._data = data
        self.where = where
        self.at = start
        self.end = len(data) if end is None else end

    def fail(self, what: str) -> TileIRError:
        """The error for damage at this place."""
        return damaged(f"{what} (in the {self.where} at byte {self.at})")

    def byte(self) -> int:
        """One byte."""
        if self.at >= self.end:
            raise self.fail("the data ends too early")
        self.at += 1
        return self._data[self.at - 1]

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        if size < 0 or size > self.end - self.at:
            raise self.fail("the data ends too early")
        self.at += size
        return self._data[self.at - size : self.at]

    def varint(self) -> int:
        """An unsigned number, 7 bits a byte, lowest first."""
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
        """A signed number: the sign is the lowest bit."""
        raw = self.varint()
        return ~(raw >> 1) if raw & 1 else raw >> 1

    def size(self) -> int:
        """A number of bytes that follow."""
        found = self.varint()
        if found > self.end - self.at:
            raise self.fail(f"a list of {found} items is longer than the data")
        return found

    def count(self) -> int:
        """A number of things that follow, each of at least one byte: more than the data holds is damage, not memory."""
        found = self.size()
        self._budget.spend(found)
        return found

    def spend(self, items: int) -> None:
        """Count things against what the file may make."""
        self._budget.spend(items)

    def ints(self, width: int) -> tuple[int, ...]:
        """A count, then signed little-endian numbers of `width` bytes."""
        raw = self.take(self.count() * width)
        return tuple(int.from_bytes(raw[i : i + width], "little", signed=True) for i in range(0, len(raw), width))

    def align(self, alignment: int, base: int = 0) -> None:
        """Skip padding up to a multiple of `alignment` bytes from `base`."""
        self.take(-(self.at - base) % alignment)

    def inner(self, size: int, where: str) -> Cursor:
        """A cursor over the next `size` bytes, which this one skips."""
        start = self.at
        if size > self.end - start:
            raise self.fail(f"the {where} is longer than the data")
        self.at += size
        return Cursor(self._data, where, start, self.at, self._budget)

    def part(self, begin: int, end: int) -> Cursor:
        """A cursor over bytes `begin` to `end` from here, which stay unread."""
        if not 0 <= begin <= end <= self.end - self.at:
            raise self.fail("an offset of a table points outside")
        return Cursor(self._data, self.where, self.at + begin, self.at + end, self._budget)

    def rest(self) -> int:
        """How many bytes are left."""
        return self.end - self.at


CAUSE = "the file is damaged, cut short, or was not written by a Tile IR compiler"
FIX = "build it again"


def damaged(what: str) -> TileIRError:
    """The error for bytes that are no sound Tile IR."""
    return TileIRError(f"Tile IR cannot be read: {what}", cause=CAUSE, fix=FIX)
