"""The tables of a Tile IR file (strings, types, constants, debug locations): found by number, decoded when first asked for."""

from __future__ import annotations

from tilec.tileir.cursor import Cursor, damaged
from tilec.tileir.ir import (
    GatherScatterView,
    Loc,
    Padding,
    PartitionView,
    Pointer,
    Scalar,
    Signature,
    StridedView,
    TensorView,
    Tile,
    Token,
    Type,
    Version,
)

_DYNAMIC = -(2**63)
_MAX_RANK = 64
_MAX_DEPTH = 64  # of types in types and of scopes in scopes: files of compilers stay far below
_I1, _POINTER, _TILE, _TENSOR, _PARTITION, _SIGNATURE, _TOKEN, _GATHER, _STRIDED = 0, 12, 13, 14, 15, 16, 17, 20, 21
_SCALARS = {
    _I1: Scalar.I1,
    1: Scalar.I8,
    2: Scalar.I16,
    3: Scalar.I32,
    4: Scalar.I64,
    5: Scalar.F16,
    6: Scalar.BF16,
    7: Scalar.F32,
    8: Scalar.TF32,
    9: Scalar.F64,
    10: Scalar.F8E4M3FN,
    11: Scalar.F8E5M2,
    18: Scalar.F8E8M0FNU,
    19: Scalar.F4E2M1FN,
    22: Scalar.I4,
    130: Scalar.F8E5M3FNU,
}
_PADDINGS = dict(enumerate(Padding))
_FILE, _COMPILE_UNIT, _LEXICAL_BLOCK, _LOC, _SUBPROGRAM, _CALL_SITE = 2, 1, 3, 4, 5, 6


class Table:
    """Items of one section: a count, offsets of `width` bytes, then what they point into."""

    def __init__(self, cursor: Cursor | None, width: int, base: int) -> None:
        self._items: list[Cursor] = []
        if cursor is None:
            return
        number = cursor.count()
        cursor.align(width, base)
        raw = cursor.take(number * width)
        offsets = [int.from_bytes(raw[i : i + width], "little") for i in range(0, len(raw), width)]
        ends = [*offsets[1:], cursor.end - cursor.at]
        self._items = [cursor.part(begin, end) for begin, end in zip(offsets, ends, strict=True)] if number else []

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, number: int) -> Cursor:
        """A fresh cursor over one item."""
        if not 0 <= number < len(self._items):
            raise damaged(f"something refers to item {number} of a table that has {len(self._items)}")
        return self._items[number].fresh()


class Strings:
    """The string table."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._known: dict[int, str] = {}

    def __getitem__(self, number: int) -> str:
        if number not in self._known:
            item = self._table[number]
            try:
                self._known[number] = item.take(item.end - item.at).decode("utf-8")
            except UnicodeDecodeError as exc:
                raise item.fail("a string is not UTF-8") from exc
        return self._known[number]


class Constants:
    """The constant table: bytes of tiles."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __getitem__(self, number: int) -> bytes:
        item = self._table[number]
        return item.take(item.count())


class Types:
    """The type table. A type that contains itself is damage."""

    def __init__(self, table: Table, version: Version) -> None:
        self._table = table
        self._version = version
        self._known: dict[int, Type] = {}

    def __getitem__(self, number: int) -> Type:
        return self._get(number, 0)

    def scalar(self, number: int) -> Scalar:
        """A type that has to be an element type."""
        found = self[number]
        if not isinstance(found, Scalar):
            raise damaged(f"type {number} is no element type")
        return found

    def _get(self, number: int, depth: int) -> Type:
        if number not in self._known:
            if depth > _MAX_DEPTH:
                raise damaged("types are nested too deeply")
            self._known[number] = self._read(self._table[number], depth + 1)
        return self._known[number]

    def _read(self, item: Cursor, depth: int) -> Type:
        tag = item.varint()
        match tag:
            case _ if tag in _SCALARS:
                return _SCALARS[tag]
            case 12:
                return self._pointer(item, depth)
            case 13:
                return self._tile(item, depth)
            case 14:
                return self._tensor(item, depth)
            case 15:
                return self._partition(item, depth)
            case 16:
                params = tuple(self._get(item.varint(), depth) for _ in range(item.count()))
                return Signature(params, tuple(self._get(item.varint(), depth) for _ in range(item.count())))
            case 17:
                return Token()
            case 20:
                return self._gather_scatter(item, depth)
            case 21:
                return self._strided(item, depth)
        raise item.fail(f"type number {tag} is not known to this version of tilec")

    def _flags(self, item: Cursor, since: Version) -> int:
        return item.varint() if self._version >= since else 0

    def _element(self, item: Cursor, depth: int) -> Scalar:
        found = self._get(item.varint(), depth)
        if not isinstance(found, Scalar):
            raise item.fail("an element type is expected here")
        return found

    def _pointer(self, item: Cursor, depth: int) -> Pointer:
        flags = self._flags(item, (13, 4))
        return Pointer(self._element(item, depth), item.varint() if flags & 1 else None)

    def _tile(self, item: Cursor, depth: int) -> Tile:
        element = self._get(item.varint(), depth)
        if not isinstance(element, Scalar | Pointer):
            raise item.fail("a tile holds numbers or pointers")
        return Tile(element, _extents(item, item.ints(8)))

    def _tensor(self, item: Cursor, depth: int) -> TensorView:
        flags = self._flags(item, (13, 4))
        element = self._element(item, depth)
        shape, strides = (tuple(None if n == _DYNAMIC else n for n in item.ints(8)) for _ in range(2))
        if len(shape) != len(strides) or len(shape) > _MAX_RANK or any(n is not None and n < 0 for n in shape):
            raise item.fail("a tensor's extents and strides do not fit")
        return TensorView(element, shape, strides, item.varint() if flags & 1 else None)

    def _view_tensor(self, item: Cursor, depth: int) -> TensorView:
        found = self._get(item.varint(), depth)
        if not isinstance(found, TensorView):
            raise item.fail("a view is of a tensor")
        return found

    def _padding(self, item: Cursor, flags: int) -> Padding | None:
        # Before 13.3 the flag stands right before the value.
        if self._version < (13, 3):
            flags = item.varint()
        if not flags & 1:
            return None
        number = item.varint()
        if number not in _PADDINGS:
            raise item.fail(f"padding {number} is not known")
        return _PADDINGS[number]

    def _partition(self, item: Cursor, depth: int) -> PartitionView:
        flags = self._flags(item, (13, 3))
        tile = _extents(item, item.ints(4))
        tensor = self._view_tensor(item, depth)
        dims = _dims(item, item.ints(4), tile, tensor)
        return PartitionView(tile, tensor, dims, self._padding(item, flags))

    def _strided(self, item: Cursor, depth: int) -> StridedView:
        flags = item.varint()
        tile = _extents(item, item.ints(4))
        steps = item.ints(4)
        tensor = self._view_tensor(item, depth)
        dims = _dims(item, item.ints(4), tile, tensor)
        if len(steps) != len(tile):
            raise item.fail("a strided view's steps do not fit its tile")
        return StridedView(tile, steps, tensor, dims, self._padding(item, flags))

    def _gather_scatter(self, item: Cursor, depth: int) -> GatherScatterView:
        flags = item.varint()
        tile = _extents(item, item.ints(4))
        tensor = self._view_tensor(item, depth)
        sparse = item.varint()
        if sparse >= len(tile) or len(tile) != len(tensor.shape):
            raise item.fail("a gather-scatter view does not fit its tensor")
        return GatherScatterView(tile, tensor, sparse, self._padding(item, flags))


class Locs:
    """The table of debug locations; 0 is none."""

    def __init__(self, table: Table, strings: Strings) -> None:
        self._table = table
        self._strings = strings
        self._known: dict[int, Loc | None] = {}

    def __getitem__(self, number: int) -> Loc | None:
        if number == 0:
            return None
        if number not in self._known:
            self._known[number] = self._read(number, 0)
        return self._known[number]

    def _read(self, number: int, depth: int) -> Loc | None:
        if depth > _MAX_DEPTH:
            raise damaged("debug locations are nested too deeply")
        if number == 0:
            return None
        item = self._table[number - 1]
        tag = item.byte()
        if tag == _LOC:
            item.varint()  # the scope: its file is the one that the location names
            return Loc(self._strings[item.varint()], item.varint(), item.varint())
        if tag == _CALL_SITE:
            callee = self._read(item.varint(), depth + 1)
            caller = self._read(item.varint(), depth + 1)
            return Loc(callee.file, callee.line, callee.column, caller) if callee else caller
        if tag == _SUBPROGRAM:
            file, line = item.varint(), item.varint()
            return Loc(self._file(file), line, 0)
        if tag in (0, _COMPILE_UNIT, _FILE, _LEXICAL_BLOCK):
            return None
        raise item.fail(f"debug record number {tag} is not known to this version of tilec")

    def _file(self, number: int) -> str:
        if not number:
            return ""
        item = self._table[number - 1]
        if item.byte() != _FILE:
            raise item.fail("a file is expected here")
        return self._strings[item.varint()]


def _extents(item: Cursor, found: tuple[int, ...]) -> tuple[int, ...]:
    if len(found) > _MAX_RANK or any(extent < 1 for extent in found):
        raise item.fail(f"a tile's extents {found} do not make sense")
    return found


def _dims(item: Cursor, found: tuple[int, ...], tile: tuple[int, ...], tensor: TensorView) -> tuple[int, ...]:
    rank = len(tensor.shape)
    if len(found) != len(tile) or len(tile) > rank or any(not 0 <= dim < rank for dim in found) or len(set(found)) != len(found):
        raise item.fail("a view's dimensions do not fit its tensor")
    return found
