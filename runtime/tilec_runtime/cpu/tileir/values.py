"""Values of Tile IR for a batch: NumPy arrays whose first axis is the blocks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from tilec_runtime.cpu.tileir.ir import NumberAttr, Padding, Pointer, Scalar, Tile

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Rows: TypeAlias = "np.ndarray[Any, np.dtype[np.intp]]"

# Tiles are arrays of shape (blocks, *tile), or (1, *tile) if all blocks have the same value.
# Integers are stored signed, i1 as bool, i4 as sign-extended int8, tf32 as rounded float32.
# f8E5M3FNU is stored as bits, since no NumPy library has it. Pointers are addresses, tokens are
# None, and views of tensors are tuples of arrays.
STORAGE: dict[Scalar, np.dtype[Any]] = {
    Scalar.I1: np.dtype(np.bool_),
    Scalar.I4: np.dtype(np.int8),
    Scalar.I8: np.dtype(np.int8),
    Scalar.I16: np.dtype(np.int16),
    Scalar.I32: np.dtype(np.int32),
    Scalar.I64: np.dtype(np.int64),
    Scalar.F16: np.dtype(np.float16),
    Scalar.BF16: np.dtype(ml_dtypes.bfloat16),
    Scalar.F32: np.dtype(np.float32),
    Scalar.TF32: np.dtype(np.float32),
    Scalar.F64: np.dtype(np.float64),
    Scalar.F8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    Scalar.F8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    Scalar.F8E8M0FNU: np.dtype(ml_dtypes.float8_e8m0fnu),
    Scalar.F8E5M3FNU: np.dtype(np.uint8),
    Scalar.F4E2M1FN: np.dtype(ml_dtypes.float4_e2m1fn),
}


def storage(element: Scalar | Pointer) -> np.dtype[Any]:
    """Return the dtype of the array that stores a tile of these elements."""
    return np.dtype(np.int64) if isinstance(element, Pointer) else STORAGE[element]


def take(item: Any, rows: Rows) -> Any:
    """Return the part of a value that belongs to some blocks of a batch."""
    if item is None:
        return None
    if isinstance(item, np.ndarray):
        return item if item.shape[0] == 1 else item[rows]
    return type(item)(*[take(part, rows) for part in item])


def join(items: list[Any], places: list[Rows], size: int) -> Any:
    """Join values of parts of a batch to one value for `size` blocks.

    `places[i]` are the blocks of `items[i]`.
    """
    first = items[0]
    if len(items) == 1 and len(places[0]) == size:
        return first
    if first is None:
        return None
    if not isinstance(first, np.ndarray):
        return type(first)(*[_joined(parts, places, size) for parts in zip(*items, strict=True)])
    return _spread(items, places, size)


def _joined(parts: Sequence[Array], places: Sequence[Rows], size: int) -> Array:
    """Join arrays of a tensor, which are often equal."""
    first = parts[0]
    if len(first) == 1 and all(np.array_equal(part, first) for part in parts):
        return first
    return _spread(parts, places, size)


def _spread(parts: Sequence[Array], places: Sequence[Rows], size: int) -> Array:
    whole = np.empty((size, *parts[0].shape[1:]), parts[0].dtype)
    for part, rows in zip(parts, places, strict=True):
        whole[rows] = part
    return whole


_FLOATS = {
    Padding.ZERO: 0.0,
    Padding.NEG_ZERO: -0.0,
    Padding.NAN: np.nan,
    Padding.POS_INF: np.inf,
    Padding.NEG_INF: -np.inf,
}
_BYTE = np.dtype(np.uint8)
# Mask of the float32 bits that tf32 keeps.
_TF32_KEPT = np.uint32(0xFFFFE000)
_E5M3_NAN = 0xFF


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """The memory layout of an element type.

    Attributes:
        element: the element type.
        held: dtype of arrays that store tiles of it.
        raw: dtype of the memory; for four-bit types a byte, which has two elements.
        size: size of an element in bytes; 1 for four-bit types.
        packed: whether two elements share a byte; even elements are in the low half.
    """

    element: Scalar
    held: np.dtype[Any]
    raw: np.dtype[Any]
    size: int
    packed: bool

    def decode(self, raw: Array) -> Array:
        """Convert raw elements to their storage; each four-bit element takes one byte."""
        decoded: Array
        if self.element is Scalar.I1:
            decoded = raw != 0
            return decoded
        if self.element is Scalar.TF32:
            decoded = raw.view(np.uint32) & _TF32_KEPT
            return decoded.view(np.float32)
        if self.element is Scalar.I4:
            return signed_digits(raw)
        return raw if raw.dtype == self.held else raw.view(self.held)

    def encode(self, held: Array) -> Array:
        """Convert stored elements to raw ones.

        Each four-bit element takes one byte, whose high half is zero.
        """
        if self.packed:
            encoded: Array = held.view(_BYTE) & np.uint8(15)
            return encoded
        return held if held.dtype == self.raw else held.view(self.raw)

    def bytes_of(self, held: Array) -> Array:
        """Return the memory bytes of a tile's elements in order."""
        raw = np.ascontiguousarray(self.encode(held)).reshape(-1)
        if not self.packed:
            return raw.view(_BYTE)
        even = np.concatenate([raw, np.zeros(raw.size % 2, _BYTE)])
        return even[::2] | even[1::2] << np.uint8(4)

    def hostile(self) -> Array:
        """Return three hostile raw elements: NaN, the largest and the lowest number.

        A type without a NaN has the largest number in its place.
        """
        if self.element is Scalar.I1:
            return np.array([1, 0, 1], self.raw)
        if self.element is Scalar.F8E5M3FNU:
            return np.array([_E5M3_NAN, _E5M3_NAN - 1, 0], self.raw)
        if self.element.is_float:
            limits: Any = ml_dtypes.finfo(self.held)  # type: ignore[no-untyped-call]
            first = np.array(np.nan, np.float32).astype(self.held)
            if not np.isnan(first.astype(np.float32)):  # f4E2M1FN has no NaN
                first = np.array(limits.max, self.held)
            return self.encode(np.array([first, limits.max, limits.min], self.held))
        lowest, highest = -(1 << (self.element.bits - 1)), (1 << (self.element.bits - 1)) - 1
        return self.encode(np.array([highest, lowest, highest], self.held))

    def one(self) -> Array:
        """Return the raw element 1, or for f8E5M3FNU the largest number."""
        if self.element is Scalar.F8E5M3FNU:
            return self.hostile()[1:2]
        return (
            np.ones(1, self.raw)
            if self.element is Scalar.I1
            else self.encode(np.ones(1, self.held))
        )

    def padding(self, padding: Padding) -> Any:
        """Return the raw element that a view's load gives outside of its tensor."""
        if padding is Padding.ZERO:
            return np.zeros((), self.raw)[()]
        if self.element is Scalar.F8E5M3FNU:
            # f8E5M3FNU has no sign and no infinity.
            return np.uint8(0 if padding is Padding.NEG_ZERO else _E5M3_NAN)
        if not self.element.is_float:
            return np.zeros((), self.raw)[()]
        return self.encode(np.array(_FLOATS[padding], np.float32).astype(self.held).reshape(1))[0]


def _layout(element: Scalar) -> Layout:
    held = STORAGE[element]
    packed = element.bits == 4
    raw = _BYTE if packed or element is Scalar.I1 else held
    return Layout(element=element, held=held, raw=raw, size=raw.itemsize, packed=packed)


LAYOUTS: dict[Scalar, Layout] = {element: _layout(element) for element in Scalar}


def layout(element: Scalar | Pointer) -> Layout:
    """Return the memory layout of an element type; pointers are 64-bit integers."""
    return LAYOUTS[Scalar.I64 if isinstance(element, Pointer) else element]


_TF32_BYTES = 3  # 19 bits


def element_bytes(element: Scalar) -> int:
    """Return the bytes per element in the data of a constant.

    The result is not valid for i1, which is packed.
    """
    return _TF32_BYTES if element is Scalar.TF32 else -(-element.bits // 8)


def elements(kind: Tile, data: bytes) -> Array:
    """Decode the data of a tile to a read-only array of the dtype in `STORAGE`.

    Data of a single element is broadcast, without memory for the others.
    """
    assert isinstance(kind.element, Scalar)
    if kind.element is Scalar.I1:
        bits = _bits(math.prod(kind.shape), data)
    elif kind.element is Scalar.TF32:
        bits = _tf32(data)
    else:
        raw = np.frombuffer(data, np.dtype(f"<u{element_bytes(kind.element)}"))
        bits = (
            _four_bits(raw, kind.element)
            if kind.element.bits == 4
            else raw.view(STORAGE[kind.element])
        )
    whole = (
        bits.reshape(kind.shape)
        if bits.size == math.prod(kind.shape)
        else np.broadcast_to(bits.reshape(()), kind.shape)
    )
    whole.flags.writeable = False
    return whole


def scalar(number: NumberAttr) -> Array:
    """Decode an attribute's number, such as a reduction's identity, to rank 0."""
    bits = number.bits & ((1 << number.type.bits) - 1)
    return elements(Tile(number.type, ()), bits.to_bytes(element_bytes(number.type), "little"))


def _bits(number: int, data: bytes) -> Array:
    if len(data) == 1 and number > 8:
        return np.array([bool(data[0] & 1)])
    return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little", count=number).astype(
        np.bool_
    )


def _tf32(data: bytes) -> Array:
    # Sign, 8 bits of exponent and 10 bits of fraction are the upper bits of a float32.
    raw = np.frombuffer(data, np.uint8).reshape(-1, _TF32_BYTES).astype(np.uint32)
    return ((raw[:, 0] | raw[:, 1] << 8 | raw[:, 2] << 16) << 13).view(np.float32)


def _four_bits(raw: Array, element: Scalar) -> Array:
    if element is Scalar.I4:
        return signed_digits(raw)
    return (raw & np.uint8(15)).view(ml_dtypes.float4_e2m1fn)


def signed_digits(raw: Array) -> Array:
    """Return the signed integers of 4 bits in the low halves of bytes."""
    digits: Array = ((raw & np.uint8(15)) ^ np.uint8(8)).view(np.int8)
    return digits - np.int8(8)
