"""Actual against expected, element by element: NaN and infinity included, every low-precision dtype
widened to f64 first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilec.case.ulps import UNKNOWN, Array, apart, ulps
from tilec.manifest.types import Tolerance
from tilec_runtime.model.dtype import BY_NUMPY

# Elements that are widened at one time: it bounds the memory that comparing large outputs takes.
CHUNK = 1 << 20

_DEFAULTS = {
    "f64": (1e-10, 1e-12),
    "f32": (1e-5, 1e-6),
    "f16": (2e-3, 1e-3),
    "bf16": (1.6e-2, 1e-2),
    "f8e4m3": (0.125, 0.05),
    "f8e5m2": (0.25, 0.1),
    "f8e8m0": (1.0, 0.0),
}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """How two arrays differ.

    Attributes:
        ok: every element is within the tolerance.
        max_abs: largest |actual - expected|; infinite where only one of the two is NaN or infinite.
        max_rel: largest |actual - expected| / |expected| over the elements that are not expected to
            be zero.
        max_ulp: most numbers of the dtype from one to the other; None where one alone is NaN.
        mismatches: elements beyond the tolerance. total: all elements.
        both_nan: elements that are NaN in both, and so fit whatever they ought to be.
        first_index: the first of them in C order, None for none, with both values.
    """

    ok: bool
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: int | None = 0
    mismatches: int = 0
    total: int = 0
    both_nan: int = 0
    first_index: tuple[int, ...] | None = None
    first_actual: int | float | bool | None = None
    first_expected: int | float | bool | None = None


def tolerance_for(given: Sequence[Tolerance], dtype: str) -> Tolerance:
    """The tolerance for an output: the case's own for the dtype, else its general one, else the
    dtype's default (exact for integers).
    """
    for wanted in (dtype, ""):
        for tolerance in given:
            if tolerance.dtype == wanted:
                return tolerance
    rtol, atol = _DEFAULTS.get(dtype, (0.0, 0.0))
    return Tolerance(rtol=rtol, atol=atol, dtype=dtype)


def compare(actual: Array, expected: Array, tolerance: Tolerance | None = None) -> Comparison:
    """Hold `actual` against `expected`.

    An element fits where both are equal, both are NaN, |actual - expected| <= atol + rtol *
    |expected|, or no more than `ulp` numbers of `actual`'s dtype lead from one to the other, the
    expected value rounded to that dtype.

    Args:
        actual: what the kernel gave.
        expected: of the same shape; its dtype may be wider.
        tolerance: None for the default of `actual`'s dtype.

    Raises:
        ValueError: the shapes differ.
    """
    if actual.shape != expected.shape:
        raise ValueError(f"shapes differ: {actual.shape} and {expected.shape}")
    limit = tolerance or tolerance_for((), BY_NUMPY[actual.dtype.name].name)
    left, right = actual.reshape(-1), expected.reshape(-1)
    max_abs = max_rel = 0.0
    mismatches, first, most, both = 0, -1, 0, 0
    for start in range(0, left.size, CHUNK):
        a, e = left[start : start + CHUNK], right[start : start + CHUNK]
        distance, size = _distance(a, e)
        steps = ulps(a, e)
        wrong = _wrong(distance, size, steps, limit)
        most = max(most, int(steps.max()))
        max_abs = max(max_abs, float(distance.max()))
        known = (size > 0) & np.isfinite(size)
        if known.any():
            max_rel = max(max_rel, float((distance[known] / size[known]).max()))
        both += _both_nan(a, e)
        count = int(np.count_nonzero(wrong))
        if count and first < 0:
            first = start + int(np.argmax(wrong))
        mismatches += count
    values: dict[str, Any] = {}
    if first >= 0:
        index = tuple(int(i) for i in np.unravel_index(first, actual.shape)) if actual.shape else ()
        values = {
            "first_index": index,
            "first_actual": plain(left[first]),
            "first_expected": plain(right[first]),
        }
    max_ulp = most if most != UNKNOWN else None
    return Comparison(
        ok=not mismatches,
        max_abs=max_abs,
        max_rel=max_rel,
        max_ulp=max_ulp,
        mismatches=mismatches,
        total=left.size,
        both_nan=both,
        **values,
    )


def differing(one: Array, two: Array) -> Array:
    """Mark elements that differ in a bit, in a row.

    All NaN are the same: which one an operation gives, its operands and their order decide.
    """
    off: Array = (_bytes(one) != _bytes(two)).any(axis=-1)
    at = np.flatnonzero(off)
    left, right = (array.reshape(-1)[at].astype(np.float64) for array in (one, two))
    off[at] = ~(np.isnan(left) & np.isnan(right))
    return off


def _bytes(array: Array) -> Array:
    """Its elements as rows of bytes."""
    return np.frombuffer(array.tobytes(), np.uint8).reshape(-1, array.itemsize)


def distances(actual: Array, expected: Array, tolerance: Tolerance) -> tuple[Array, Array]:
    """(|actual - expected| in f64, which of them are beyond the tolerance), by the rules of
    `compare`.
    """
    distance, size = _distance(actual, expected)
    return distance, _wrong(distance, size, ulps(actual, expected), tolerance)


def _wrong(distance: Array, size: Array, steps: Array, limit: Tolerance) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        # Written so that a distance of 0 fits whatever the size is, infinite ones included.
        wrong: Array = (distance > 0) & ~(
            distance <= limit.atol + limit.rtol * np.where(np.isfinite(size), size, 0.0)
        )
    if limit.ulp:
        # Infinity is no neighbour of the largest number: it is right only where the expected value
        # rounds to it.
        wrong &= (steps > limit.ulp) | (np.isinf(distance) & (steps > 0))
    return wrong


def _both_nan(actual: Array, expected: Array) -> int:
    """How many elements are NaN in both."""
    if actual.dtype.kind in "iub" or expected.dtype.kind in "iub":
        return 0
    return int(np.count_nonzero((actual != actual) & (expected != expected)))


def _distance(actual: Array, expected: Array) -> tuple[Array, Array]:
    """(|a - e|, |e|) in f64."""
    return (
        _integer_distance(actual, expected)
        if actual.dtype.kind in "iub"
        else _float_distance(actual, expected)
    )


def _float_distance(actual: Array, expected: Array) -> tuple[Array, Array]:
    """(|a - e|, |e|) in f64, with 0 where both are NaN or the same infinity and infinity where only
    one is.
    """
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(a - e)
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    distance[same] = 0.0
    distance[np.isnan(distance)] = np.inf
    return distance, np.abs(e)


def _integer_distance(actual: Array, expected: Array) -> tuple[Array, Array]:
    """(|a - e|, |e|) of integers: differences are taken as integers, since f64 does not hold all of
    64 bits.
    """
    if expected.dtype.kind not in "iub" or {actual.dtype, expected.dtype} >= {
        np.dtype(np.uint64),
        np.dtype(np.int64),
    }:
        return _float_distance(actual, expected)
    return apart(actual, expected).astype(np.float64), np.abs(expected.astype(np.float64))


def plain(value: Any) -> int | float | bool:
    """An element as a number of Python."""
    item = value.item()
    return item if isinstance(item, int | float | bool) else float(item)
