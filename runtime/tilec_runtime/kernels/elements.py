"""Elements of one dtype as those of another with NumPy: the twin of elements.cuh and convert.cu,
bit for bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np

from tilec_runtime.cpu.tileir.exact import odd_float32
from tilec_runtime.model.dtype import DTYPES

Array: TypeAlias = "np.ndarray[Any, Any]"


class Small(NamedTuple):
    """A float of 4 to 16 bits: digits behind the point, bias of the exponent, the first code beyond
    all finite numbers, and NaN.
    """

    digits: int
    bias: int
    beyond: int
    nan: int


SMALL = {
    "f16": Small(10, 15, 0x7C00, 0x7E00),
    "bf16": Small(7, 127, 0x7F80, 0x7FC0),
    "f8e4m3": Small(3, 7, 0x7F, 0x7F),  # NaN follows the largest number
    "f8e5m2": Small(2, 15, 0x7C, 0x7E),
}
_SCALE, _FOURS = "f8e8m0", "f4e2m1"
# Four bits have neither infinity nor NaN: what is too large, and NaN, become the largest number.
_SMALLEST = Small(1, 1, 7, 7)
_NUMBERS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
_NAN32, _NAN64 = np.uint32(0x7FC00000), np.uint64(0x7FF8000000000000)
_SIZE, _INFINITE = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000)
# Digits beyond these of an integer are put together into one before it becomes a float64: what is
# rounded to has fewer by far.
_KEPT, _DROPPED = np.uint64(1 << 40), np.uint64(24)


def convert(bits: Array, source: str, target: str) -> Array:
    """The bits of elements as those of another dtype, rounded once, to nearest even.

    Floats become integers towards zero; what is too large becomes the nearest bound, NaN becomes 0.
    Integers become integers by their low bits. Every NaN is the same one.

    Args:
        bits: unsigned integers of the source's size; of f4e2m1, bytes of two elements, the first in
            the low half.
        source: its dtype.
        target: the dtype wanted, another one.
    """
    if source == _FOURS:
        bits = spread(bits)
    elif target == _FOURS:
        codes = _converted(bits, source, target)
        return codes[0::2] | codes[1::2] << np.uint8(4)
    return _converted(bits, source, target)


def spread(pairs: Array) -> Array:
    """The bits of f4e2m1, one element in a byte."""
    return np.stack([pairs & np.uint8(15), pairs >> np.uint8(4)], axis=-1).reshape(-1)


def _converted(bits: Array, source: str, target: str) -> Array:
    with np.errstate(all="ignore"):
        if DTYPES[source].kind == "float":
            return encode(numbers(bits, source), target)
        return _encode_integer(
            bits != 0 if source == "bool" else bits.view(DTYPES[source].numpy), target
        )


def numbers(bits: Array, dtype: str) -> Array:
    """What bits of a float stand for: float64 for f64, else float32, which has them all."""
    if dtype == "f64" or dtype == "f32":
        return bits.view(DTYPES[dtype].numpy)
    if dtype == "f16":
        return bits.view(np.float16).astype(np.float32)
    if dtype == _FOURS:
        return _NUMBERS[bits]
    if dtype == _SCALE:
        powers = np.where(bits == 0, np.uint32(0x00400000), bits.astype(np.uint32) << np.uint32(23))
        powers[bits == 0xFF] = _NAN32
        return powers.view(np.float32)
    return bits.view(getattr(ml_dtypes, DTYPES[dtype].numpy)).astype(np.float32)


def encode(values: Array, dtype: str) -> Array:
    """The bits of float64 or float32 numbers as elements of a dtype; may be a view."""
    with np.errstate(all="ignore"):
        row = DTYPES[dtype]
        if row.kind == "bool":
            return (values != 0).view(np.uint8)
        if row.kind != "float":
            return _clipped(values.astype(np.float64), dtype)
        if dtype == "f64":
            return np.where(np.isnan(values), _NAN64, values.astype(np.float64).view(np.uint64))
        if dtype == "f32":
            return np.where(np.isnan(values), _NAN32, values.astype(np.float32).view(np.uint32))
        return narrow(odd_float32(values) if values.dtype == np.float64 else values, dtype)


def narrow(values: Array, dtype: str) -> Array:
    """The bits of the nearest numbers of 4 to 16 bits. The float32 numbers may have been rounded to
    odd.
    """
    bits = np.ascontiguousarray(values).view(np.uint32)
    size = bits & _SIZE
    if dtype == _SCALE:
        return _scales(bits, size)
    if dtype == _FOURS:
        result = _cut(size, _SMALLEST) | (bits >> np.uint32(28)) & np.uint32(8)
        result[size > _INFINITE] = _SMALLEST.nan
        return result.astype(np.uint8)
    small = SMALL[dtype]
    result = _cut(size, small)
    missing = (size > _INFINITE) | (result == small.nan)  # of f8e4m3, also what is too large
    width = 8 * DTYPES[dtype].bytes
    result |= (bits >> np.uint32(32 - width)) & np.uint32(1 << (width - 1))
    result[missing] = small.nan
    return result.astype(f"u{width // 8}")


def _cut(size: Array, small: Small) -> Array:
    """The bits of the nearest float of fewer digits, without a sign."""
    digits, bias, beyond, _ = small
    shift = 23 - digits
    result = (size >> np.uint32(shift)) & np.uint32(1)
    result += size
    result += np.uint32(((1 << (shift - 1)) - 1 - ((127 - bias) << 23)) & 0xFFFFFFFF)
    result >>= np.uint32(shift)
    # Below the normal range: adding a number whose last place is the least small float rounds.
    last = np.uint32((127 + shift + 1 - bias) << 23)
    tiny = size < np.uint32((128 - bias) << 23)
    if tiny.any():
        result[tiny] = (size[tiny].view(np.float32) + last.view(np.float32)).view(np.uint32) - last
    bounded: Array = np.minimum(result, np.uint32(beyond), out=result)
    return bounded


def _scales(bits: Array, size: Array) -> Array:
    """Powers of two, the upper one of two that are as near; what is not above 0 has none."""
    result = (size + np.uint32(0x00400000)) >> np.uint32(23)
    result[size < np.uint32(0x00800000)] = 1
    result[size < np.uint32(0x00600000)] = 0
    result[(bits == 0) | (bits > _INFINITE)] = 0xFF
    return result.astype(np.uint8)


def _clipped(values: Array, dtype: str) -> Array:
    """Float64 numbers as an integer type, towards zero and within its bounds."""
    bounds = np.iinfo(DTYPES[dtype].numpy)
    low, high = float(bounds.min), float(bounds.max)
    whole = np.trunc(values)
    inside = (whole >= low) & (
        whole < high
    )  # a float64 above all of i64 or u64 rounds to their highest, plus 1
    result = np.where(inside, whole, 0.0).astype(DTYPES[dtype].numpy)
    result[whole >= high] = bounds.max
    result[whole < low] = bounds.min
    return result.view(f"u{DTYPES[dtype].bytes}")


def _encode_integer(values: Array, dtype: str) -> Array:
    row = DTYPES[dtype]
    if row.kind == "bool":
        return (values != 0).view(np.uint8)
    if row.kind != "float":
        return values.astype(f"u{row.bytes}")
    if dtype in ("f32", "f64"):
        return values.astype(row.numpy).view(f"u{row.bytes}")
    negative = values < 0
    size = values.astype(np.uint64)
    np.negative(size, out=size, where=negative)
    short = (size >> _DROPPED) | ((size & np.uint64((1 << 24) - 1)) != 0)
    exact = np.where(size < _KEPT, size.astype(np.float64), short.astype(np.float64) * 2.0**24)
    return narrow(odd_float32(np.where(negative, -exact, exact)), dtype)
