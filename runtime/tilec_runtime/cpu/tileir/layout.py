"""How elements lie in memory, and how that becomes the arrays that hold tiles: i1 in a byte, four-bit types two to a byte."""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np

from tilec_runtime.cpu.tileir.ir import Padding, Pointer, Scalar
from tilec_runtime.cpu.tileir.values import STORAGE, Array

_FLOATS = {Padding.ZERO: 0.0, Padding.NEG_ZERO: -0.0, Padding.NAN: np.nan, Padding.POS_INF: np.inf, Padding.NEG_INF: -np.inf}
_BYTE = np.dtype(np.uint8)
# The fraction bits of a float32 that tf32 does not have.
_TF32_KEPT = np.uint32(0xFFFFE000)
_E5M3_NAN = 0xFF


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Elements of one type in memory.

    Attributes:
        element: the type. held: type of the arrays that hold tiles of it.
        raw: type of the memory; for four-bit types a byte, which holds two elements.
        size: bytes of an element; 1 for four-bit types.
        packed: whether two elements share a byte, the one at the even place in its low half.
    """

    element: Scalar
    held: np.dtype[Any]
    raw: np.dtype[Any]
    size: int
    packed: bool

    def decode(self, raw: Array) -> Array:
        """What is held for elements as read from memory; for four-bit types each comes in a byte of its own."""
        found: Array
        if self.element is Scalar.I1:
            found = raw != 0
            return found
        if self.element is Scalar.TF32:
            found = raw.view(np.uint32) & _TF32_KEPT
            return found.view(np.float32)
        if self.element is Scalar.I4:
            found = raw << np.uint8(4)
            signed: Array = found.view(np.int8) >> np.int8(4)
            return signed
        return raw if raw.dtype == self.held else raw.view(self.held)

    def encode(self, held: Array) -> Array:
        """The elements as they lie in memory; for four-bit types each in a byte of its own, its high half zero."""
        if self.packed:
            found: Array = held.view(_BYTE) & np.uint8(15)
            return found
        return held if held.dtype == self.raw else held.view(self.raw)

    def bytes_of(self, held: Array) -> Array:
        """The bytes of a tile's elements in memory, one after the other."""
        raw = np.ascontiguousarray(self.encode(held)).reshape(-1)
        if not self.packed:
            return raw.view(_BYTE)
        even = np.concatenate([raw, np.zeros(raw.size % 2, _BYTE)])
        return even[::2] | even[1::2] << np.uint8(4)

    def hostile(self) -> Array:
        """Return three elements, as in memory, that a kernel must not meet: NaN, the largest and the lowest number.

        Without a NaN in the type, the largest number takes its place.
        """
        if self.element is Scalar.I1:
            return np.array([1, 0, 1], self.raw)
        if self.element is Scalar.F8E5M3FNU:
            return np.array([_E5M3_NAN, _E5M3_NAN - 1, 0], self.raw)
        if self.element.is_float:
            limits: Any = ml_dtypes.finfo(self.held)  # type: ignore[no-untyped-call]
            first = np.array(np.nan, np.float32).astype(self.held)
            if not np.isnan(first.astype(np.float32)):  # f4E2M1FN has none
                first = np.array(limits.max, self.held)
            return self.encode(np.array([first, limits.max, limits.min], self.held))
        lowest, highest = -(1 << (self.element.bits - 1)), (1 << (self.element.bits - 1)) - 1
        return self.encode(np.array([highest, lowest, highest], self.held))

    def one(self) -> Array:
        """Return the number 1 as an element in memory; of a type without sign and infinity, its largest."""
        if self.element is Scalar.F8E5M3FNU:
            return self.hostile()[1:2]
        return np.ones(1, self.raw) if self.element is Scalar.I1 else self.encode(np.ones(1, self.held))

    def padding(self, padding: Padding) -> Any:
        """What a view's load gives outside its tensor, as an element in memory."""
        if padding is Padding.ZERO:
            return np.zeros((), self.raw)[()]
        if self.element is Scalar.F8E5M3FNU:
            # It has neither sign nor infinity.
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
    """How elements of a type lie in memory. Pointers lie there as 64-bit integers."""
    return LAYOUTS[Scalar.I64 if isinstance(element, Pointer) else element]
