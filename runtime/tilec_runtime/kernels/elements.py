"""Conversion of elements with NumPy: twin of elements.cuh and convert.cu.

The bits are equal.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from tilec_runtime.cpu.tileir import formats
from tilec_runtime.cpu.tileir.exact import odd_float32
from tilec_runtime.cpu.tileir.ir import Scalar
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors.host import numpy_dtype, paired, unpaired

Array: TypeAlias = "np.ndarray[Any, Any]"


# The only NaN that conversions to a float dtype give. f4e2m1 has no NaN: its largest number.
_NANS = {
    "f64": 0x7FF8000000000000,
    "f32": 0x7FC00000,
    "f16": 0x7E00,
    "bf16": 0x7FC0,
    "f8e4m3": 0x7F,
    "f8e5m2": 0x7E,
    "f4e2m1": 7,
}
_SCALE, _FOURS = "f8e8m0", "f4e2m1"
# An integer of more than 40 bits drops its 24 low bits, and sets its last bit if any of them is set
# (a sticky bit). Then float64 holds it exactly. Targets of 4 to 16 bits keep far fewer bits.
_KEPT, _DROPPED = np.uint64(1 << 40), np.uint64(24)


def convert(bits: Array, source: str, target: str) -> Array:
    """Convert the bits of elements to another dtype, rounded once, to nearest even.

    Floats become integers by truncation towards zero. A value out of range becomes the nearest
    bound, and NaN becomes 0. Integers become integers by their low bits. Every NaN becomes the same
    one.

    Args:
        bits: unsigned integers of the source's size; for f4e2m1, bytes of two elements, the first
            in the low half.
        source: the dtype of the elements.
        target: another dtype.
    """
    if source == _FOURS:
        bits = unpaired(bits)
    elif target == _FOURS:
        return paired(_converted(bits, source, target))
    return _converted(bits, source, target)


def _converted(bits: Array, source: str, target: str) -> Array:
    with np.errstate(all="ignore"):
        if DTYPES[source].kind == "float":
            return encode(numbers(bits, source), target)
        return _encode_integer(
            bits != 0 if source == "bool" else bits.view(DTYPES[source].numpy), target
        )


def numbers(bits: Array, dtype: str) -> Array:
    """Return the values of a float's bits: float64 for f64, float32 for others.

    Both hold the values exactly.
    """
    held = bits.view(numpy_dtype(dtype))
    return held if dtype in ("f32", "f64") else held.astype(np.float32)


def encode(values: Array, dtype: str) -> Array:
    """Return the bits of float values as elements of a dtype; may be a view.

    The values are float64 or float32.
    """
    with np.errstate(all="ignore"):
        row = DTYPES[dtype]
        if row.kind == "bool":
            return (values != 0).view(np.uint8)
        if row.kind != "float":
            return _clipped(values.astype(np.float64), dtype)
        if dtype not in ("f32", "f64") and values.dtype == np.float64:
            values = odd_float32(values)
        return narrow(values, dtype)


def narrow(values: Array, dtype: str) -> Array:
    """Return the bits of the nearest floats.

    For targets of 4 to 16 bits, the float32 values may have been rounded to odd.
    """
    if dtype == _SCALE:
        bits = np.ascontiguousarray(values).view(np.uint32)
        return _scales(bits, bits & np.uint32(0x7FFFFFFF))
    if dtype == "f16":  # NumPy's conversion takes ten times as long for subnormal numbers
        nearest = formats.narrow(values, Scalar.F16)
    else:
        nearest = values.astype(numpy_dtype(dtype))
    bits = nearest.view(f"u{DTYPES[dtype].bytes}")
    missing = np.isnan(values)
    if dtype == "f8e4m3":  # a value out of range becomes NaN
        missing |= (bits & np.uint8(0x7F)) == np.uint8(_NANS[dtype])
    return np.where(missing, bits.dtype.type(_NANS[dtype]), bits)


def _scales(bits: Array, size: Array) -> Array:
    """Return the nearest powers of two; NaN for values not above 0.

    Of two equally near powers, the upper is taken.
    """
    result = (size + np.uint32(0x00400000)) >> np.uint32(23)
    result[size < np.uint32(0x00800000)] = 1
    result[size < np.uint32(0x00600000)] = 0
    result[(bits == 0) | (bits > np.uint32(0x7F800000))] = 0xFF
    return result.astype(np.uint8)


def _clipped(values: Array, dtype: str) -> Array:
    """Truncate float64 values towards zero, and clip them to an integer dtype."""
    bounds = np.iinfo(DTYPES[dtype].numpy)
    low, high = float(bounds.min), float(bounds.max)
    whole = np.trunc(values)
    inside = (whole >= low) & (
        whole < high
    )  # `high` of i64 and u64 rounds up to a power of two in float64, which is out of range
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
