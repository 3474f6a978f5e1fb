"""The type table of a Tile IR file, with checks of extents, views and versions."""

from __future__ import annotations

import math

from tilec_runtime.cpu.tileir.ir import (
    Padding,
    Pointer,
    Scalar,
    Signature,
    TensorView,
    Tile,
    Token,
    Type,
    Version,
    View,
)
from tilec_runtime.cpu.tileir.tables import Cursor, Items, Table, damaged

MAX_ELEMENTS = 1 << 24  # elements of a tile
_TILE, _PARTITION, _GATHER_SCATTER, _STRIDED = 13, 15, 20, 21
_VIEWS = {
    _PARTITION: "partition_view",
    _GATHER_SCATTER: "gather_scatter_view",
    _STRIDED: "strided_view",
}
_DYNAMIC = -(2**63)
_MAX_RANK = 30  # NumPy's limit, less one for the axis of the blocks
_MAX_DEPTH = 8  # nesting depth of types; a view of a tensor in a signature has depth 3
SCALARS: dict[int, Scalar] = {
    0: Scalar.I1,
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


class Types:
    """The type table; a type that contains itself is an error."""

    def __init__(self, table: Table, version: Version) -> None:
        self._table = table
        self._version = version
        self._items = Items(table, self._read, "types", _MAX_DEPTH)

    def __getitem__(self, number: int) -> Type:
        return self._items[number]

    def too_large(self) -> tuple[int, ...]:
        """Return the extents of the first tile with too many elements, or an empty tuple."""
        for number in range(len(self._table)):
            item = self._table[number]
            if item.varint() == _TILE:
                item.varint()  # its element type
                extents = item.ints(8)
                if math.prod(extents) > MAX_ELEMENTS:
                    return tuple(extents)
        return ()

    def scalar(self, number: int) -> Scalar:
        """Return an element type; refuse other types."""
        kind = self[number]
        if not isinstance(kind, Scalar):
            raise damaged(f"type {number} is no element type")
        return kind

    def value(self, number: int) -> Type:
        """Return the type of a tile, a view or a token; refuse other types."""
        kind = self[number]
        if isinstance(kind, Scalar | Pointer | Signature):
            raise damaged(f"type {number} is no tile, view or token")
        return kind

    def _read(self, item: Cursor) -> Type:
        tag = item.varint()
        match tag:
            case _ if tag in SCALARS:
                return SCALARS[tag]
            case 12:
                return self._pointer(item)
            case _ if tag == _TILE:
                return self._tile(item)
            case 14:
                return self._tensor(item)
            case 16:
                params = tuple(self.value(item.varint()) for _ in range(item.count()))
                return Signature(
                    params, tuple(self.value(item.varint()) for _ in range(item.count()))
                )
            case 17:
                return Token()
            case _ if tag in _VIEWS:
                return self._view(item, tag)
        raise item.fail(f"type number {tag} is not known to this version of tilec")

    def _flags(self, item: Cursor, since: Version) -> int:
        flags = item.varint() if self._version >= since else 0
        if flags > 1:
            raise item.fail(f"flags {flags:#x} of a type are not known to this version of tilec")
        return flags

    def _element(self, item: Cursor) -> Scalar:
        kind = self[item.varint()]
        if not isinstance(kind, Scalar) or kind is Scalar.I4:
            raise item.fail("an element type that memory can hold is expected here")
        return kind

    def _mark(self, item: Cursor, flags: int) -> int | None:
        if not flags:
            return None
        mark = item.varint()
        if mark:
            raise item.fail(f"pointer attribute {mark} is not known to this version of tilec")
        return mark

    def _pointer(self, item: Cursor) -> Pointer:
        flags = self._flags(item, (13, 4))
        return Pointer(self._element(item), self._mark(item, flags))

    def _tile(self, item: Cursor) -> Tile:
        element = self[item.varint()]
        if not isinstance(element, Scalar | Pointer):
            raise item.fail("a tile holds numbers or pointers")
        return Tile(element, _extents(item, item.ints(8), element))

    def _tensor(self, item: Cursor) -> TensorView:
        flags = self._flags(item, (13, 4))
        element = self._element(item)
        shape, strides = (
            tuple(None if n == _DYNAMIC else n for n in item.ints(8)) for _ in range(2)
        )
        if (
            len(shape) != len(strides)
            or len(shape) > _MAX_RANK
            or any(n is not None and n < 1 for n in (*shape, *strides))
        ):
            raise item.fail("a tensor's extents and strides do not fit")
        return TensorView(element, shape, strides, self._mark(item, flags))

    def _view_tensor(self, item: Cursor, tile: tuple[int, ...]) -> TensorView:
        kind = self[item.varint()]
        if not isinstance(kind, TensorView):
            raise item.fail("a view is of a tensor")
        if len(kind.shape) != len(tile) or not tile:
            raise item.fail(
                f"tiles of rank {len(tile)} do not fit a tensor of rank {len(kind.shape)}"
            )
        _extents(item, tile, kind.element)
        return kind

    def _padding(self, item: Cursor, flags: int, tensor: TensorView) -> Padding | None:
        # Before 13.3 the flag directly precedes the value.
        if self._version < (13, 3):
            flags = item.varint()
        if not flags & 1:
            return None
        number = item.varint()
        padding = _PADDINGS.get(number)
        if padding is None or (padding is not Padding.ZERO and not tensor.element.is_float):
            raise item.fail(
                f"padding {padding.value if padding else number} does not fit {tensor.element}"
            )
        return padding

    def _view(self, item: Cursor, tag: int) -> View:
        flags = self._flags(item, (13, 3) if tag == _PARTITION else (13, 1))
        tile = item.ints(4)
        steps = item.ints(4) if tag == _STRIDED else tile
        tensor = self._view_tensor(item, tile)
        dims, sparse = tuple(range(len(tile))), None
        if tag == _GATHER_SCATTER:
            sparse, steps = item.varint(), (1,) * len(tile)
            if sparse >= len(tile):
                raise item.fail(f"a gather-scatter view has no dimension {sparse}")
        else:
            dims = item.ints(4)
        if sorted(dims) != list(range(len(tile))):
            raise item.fail(f"a view's dimensions {dims} are no order of its tensor's")
        if len(steps) != len(tile) or any(step < 1 for step in steps):
            raise item.fail(f"a strided view's steps {steps} do not fit its tile")
        return View(
            name=_VIEWS[tag],
            tile=tile,
            tensor=tensor,
            steps=steps,
            dims=dims,
            sparse=sparse,
            padding=self._padding(item, flags, tensor),
        )


def _extents(item: Cursor, extents: tuple[int, ...], element: Scalar | Pointer) -> tuple[int, ...]:
    if len(extents) > _MAX_RANK or any(extent < 1 or extent & (extent - 1) for extent in extents):
        raise item.fail(f"a tile's extents {extents} are no powers of two")
    number = math.prod(extents)
    if number > MAX_ELEMENTS:
        raise item.fail(f"a tile of extents {extents} has more than {MAX_ELEMENTS} elements")
    if element is Scalar.F4E2M1FN and number % 2:
        raise item.fail(f"a tile of {element} has an even number of elements")
    return extents
