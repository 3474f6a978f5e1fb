"""Bytes of constants and globals as arrays: how many bytes a tile may have in the file, and what they mean."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from tilec_runtime.cpu.tileir.ir import FloatAttr, IntegerAttr, Scalar, Tile
from tilec_runtime.cpu.tileir.values import STORAGE, Array

_TF32_BYTES = 3  # 19 bits


def sizes(kind: Tile) -> tuple[int, ...]:
    """How many bytes the data of such a tile may have: for all elements, or for one that is the same everywhere."""
    assert isinstance(kind.element, Scalar)
    number = math.prod(kind.shape)
    if kind.element is Scalar.I1:
        return (-(-number // 8), 1)
    each = element_bytes(kind.element)
    return (number * each, each)


def element_bytes(element: Scalar) -> int:
    """Bytes of one element in the data of a constant, where each lies in bytes of its own (those of i1 do not)."""
    return _TF32_BYTES if element is Scalar.TF32 else -(-element.bits // 8)


def elements(kind: Tile, data: bytes) -> Array:
    """The tile that `data` stands for, read-only, of `values.STORAGE`'s type. Data of one element costs no memory for the others."""
    assert isinstance(kind.element, Scalar)
    if kind.element is Scalar.I1:
        found = _bits(math.prod(kind.shape), data)
    elif kind.element is Scalar.TF32:
        found = _tf32(data)
    else:
        raw = np.frombuffer(data, np.dtype(f"<u{element_bytes(kind.element)}"))
        found = _four_bits(raw, kind.element) if kind.element.bits == 4 else raw.view(STORAGE[kind.element])
    whole = found.reshape(kind.shape) if found.size == math.prod(kind.shape) else np.broadcast_to(found.reshape(()), kind.shape)
    whole.flags.writeable = False
    return whole


def scalar(number: IntegerAttr | FloatAttr) -> Array:
    """The number of an attribute, such as the identity of a reduction, as an array of rank 0."""
    bits = number.bits if isinstance(number, FloatAttr) else number.value & ((1 << number.type.bits) - 1)
    return elements(Tile(number.type, ()), bits.to_bytes(element_bytes(number.type), "little"))


def _bits(number: int, data: bytes) -> Array:
    if len(data) == 1 and number > 8:
        return np.array([bool(data[0] & 1)])
    return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little", count=number).astype(np.bool_)


def _tf32(data: bytes) -> Array:
    # Sign, 8 bits of exponent and 10 of fraction: the upper bits of a float32.
    raw = np.frombuffer(data, np.uint8).reshape(-1, _TF32_BYTES).astype(np.uint32)
    return ((raw[:, 0] | raw[:, 1] << 8 | raw[:, 2] << 16) << 13).view(np.float32)


def _four_bits(raw: Array, element: Scalar) -> Array:
    low = (raw & 0xF).astype(np.uint8)
    if element is Scalar.I4:
        return ((low ^ 8).astype(np.int8) - 8).astype(np.int8)
    return low.view(ml_dtypes.float4_e2m1fn)
