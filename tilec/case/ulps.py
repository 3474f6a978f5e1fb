"""How many numbers of a dtype lie between two values, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilec_runtime.model.dtype import BY_NUMPY

Array = np.ndarray[Any, np.dtype[Any]]

UNKNOWN = np.iinfo(np.uint64).max
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def ulps(actual: Array, expected: Array) -> Array:
    """Numbers of `actual`'s dtype from one array to the other, counted from one to its neighbour;
    `UNKNOWN` where one alone is NaN.

    Args:
        actual: of any dtype that kernels take.
        expected: of the same shape. It may be of another dtype: what a kernel gives in floats is
            held against it rounded to that dtype.
    """
    if actual.dtype.kind in "iub":
        return _whole(actual, expected)
    with np.errstate(over="ignore", invalid="ignore"):
        near = expected.astype(actual.dtype)
    nan = np.isnan(actual.astype(np.float64)), np.isnan(near.astype(np.float64))
    found = apart(_places(actual), _places(near))
    found[nan[0] & nan[1]] = 0
    found[nan[0] ^ nan[1]] = UNKNOWN
    return found


def _whole(actual: Array, expected: Array) -> Array:
    """|actual - expected| of an integer, rounded up where the expected value is none; one that the
    dtype does not hold is far off.
    """
    if expected.dtype.kind in "iub" and not {actual.dtype, expected.dtype} >= {
        np.dtype(np.uint64),
        np.dtype(np.int64),
    }:
        return apart(actual, expected)
    with np.errstate(invalid="ignore"):
        distance = np.ceil(np.abs(actual.astype(np.float64) - expected.astype(np.float64)))
    known = distance < float(UNKNOWN)
    return np.where(known, np.where(known, distance, 0.0).astype(np.uint64), np.uint64(UNKNOWN))


def apart(one: Array, other: Array) -> Array:
    """|one - other| of integers, as u64: the larger minus the smaller, read without a sign, is
    right even where that overflows.
    """
    wide = np.uint64 if np.dtype(np.uint64) in (one.dtype, other.dtype) else np.int64
    a, b = one.astype(wide), other.astype(wide)
    return (np.maximum(a, b) - np.minimum(a, b)).view(np.uint64)


def _places(values: Array) -> Array:
    """The place of each number among all of its dtype, in their order; 0 for both zeros."""
    dtype = BY_NUMPY[values.dtype.name]
    bits = np.ascontiguousarray(values).view(_BITS[values.dtype.itemsize]).astype(np.int64)
    if dtype.name == "f8e8m0":  # it has no sign, and no zero
        return bits
    magnitude = bits & ((1 << (dtype.bits - 1)) - 1)
    sign = (bits >> (dtype.bits - 1)) & 1  # an arithmetic shift of 64 bits leaves ones above
    return np.where(sign == 1, -magnitude, magnitude)
