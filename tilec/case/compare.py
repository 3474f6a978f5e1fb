"""Compares arrays element by element: absolute, relative and in units in the last place.

NaN equals NaN. Low-precision dtypes are widened to f64 first, integers are compared exactly.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilec.manifest.types import Tolerance
from tilec_runtime.model.dtype import BY_NUMPY

Array = np.ndarray[Any, np.dtype[Any]]
Number = int | float | bool

# Elements that are widened at a time: bounds the memory of a comparison of large outputs.
CHUNK = 1 << 20
# Neighbours of the first wrong element that are shown.
BEFORE, BEHIND = 3, 4
# Decades of the histogram; smaller errors share its first row.
MOST_DECADES = 8
# The distance in ulp from NaN to a number.
UNKNOWN = np.iinfo(np.uint64).max

_DEFAULTS = {
    "f64": (1e-10, 1e-12),
    "f32": (1e-5, 1e-6),
    "f16": (2e-3, 1e-3),
    "bf16": (1.6e-2, 1e-2),
    "f8e4m3": (0.125, 0.05),
    "f8e5m2": (0.25, 0.1),
    "f8e8m0": (1.0, 0.0),
}
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Element:
    """One element of both arrays.

    Attributes:
        index: of the element. ok: it is within the tolerance.
        got, expected: values. error: their distance; infinite if only one is NaN or infinite.
        ulp: their distance in ulp; None if only one is NaN.
    """

    index: tuple[int, ...]
    ok: bool
    got: Number
    expected: Number
    error: float
    ulp: int | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Bin:
    """The number of elements with `low` <= error < `high`, and how many of them are `off`.

    Both bounds are 0 for equal elements, infinite where only one value is finite.
    """

    low: float
    high: float
    count: int
    off: int

    @property
    def label(self) -> str:
        """`equal`, `1e-03 to 1e-02`, `not finite`."""
        if math.isinf(self.low):
            return "not finite"
        if self.high == 0:
            return "equal"
        return f"below {self.high:.0e}" if self.low == 0 else f"{self.low:.0e} to {self.high:.0e}"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Differences of two arrays.

    Attributes:
        ok: every element is within the tolerance.
        max_abs: largest |actual - expected|; infinite if only one is NaN or infinite.
        max_rel: largest |actual - expected| / |expected| where `expected` is not 0.
        max_ulp: largest distance in ulp; None if only one of a pair is NaN.
        mismatches: number of elements beyond the tolerance.
        total: number of all elements.
        both_nan: elements that are NaN in both arrays.
        first_index: index of the first mismatch in C order, or None.
        first_actual, first_expected: its two values.
        window: the first mismatch with its neighbours in its row.
        histogram: all elements by the decade of their error, if one is beyond the tolerance.
    """

    ok: bool
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: int | None = 0
    mismatches: int = 0
    total: int = 0
    both_nan: int = 0
    first_index: tuple[int, ...] | None = None
    first_actual: Number | None = None
    first_expected: Number | None = None
    window: tuple[Element, ...] = ()
    histogram: tuple[Bin, ...] = ()


def tolerance_for(given: Sequence[Tolerance], dtype: str) -> Tolerance:
    """Return the case's tolerance for a dtype, else its general one, else the dtype's default.

    Integers are exact by default.
    """
    for wanted in (dtype, ""):
        for tolerance in given:
            if tolerance.dtype == wanted:
                return tolerance
    rtol, atol = _DEFAULTS.get(dtype, (0.0, 0.0))
    return Tolerance(rtol=rtol, atol=atol, dtype=dtype)


def compare(actual: Array, expected: Array, tolerance: Tolerance | None = None) -> Comparison:
    """Compare two arrays.

    An element is right if both values are equal or both NaN, if |actual - expected| <= atol + rtol
    * |expected|, or if they are at most `ulp` units in the last place apart, `expected` rounded to
    `actual`'s dtype.

    Args:
        actual: what the kernel wrote.
        expected: of the same shape; its dtype may be wider.
        tolerance: None for the default of `actual`'s dtype.

    Raises:
        ValueError: the shapes differ.
    """
    if actual.shape != expected.shape:
        raise ValueError(f"shapes differ: {actual.shape} and {expected.shape}")
    limit = tolerance or tolerance_for((), BY_NUMPY[actual.dtype.name].name)
    max_abs = max_rel = 0.0
    most, both, mismatches = 0, 0, 0
    first: int | None = None
    left, right = actual.reshape(-1), expected.reshape(-1)
    for chunk in _chunks(left, right, limit):
        size = np.abs(chunk.expected.astype(np.float64))
        known = (size > 0) & np.isfinite(size)
        max_abs = max(max_abs, float(chunk.distance.max()))
        max_rel = max(max_rel, float((chunk.distance[known] / size[known]).max(initial=0.0)))
        most = max(most, int(chunk.ulps.max()))
        both += int(np.count_nonzero((chunk.actual != chunk.actual) & (chunk.distance == 0)))
        if first is None and chunk.wrong.any():
            first = chunk.start + int(np.argmax(chunk.wrong))
        mismatches += int(np.count_nonzero(chunk.wrong))
    comparison = Comparison(
        ok=not mismatches,
        max_abs=max_abs,
        max_rel=max_rel,
        max_ulp=most if most != UNKNOWN else None,
        mismatches=mismatches,
        total=left.size,
        both_nan=both,
    )
    if first is None:
        return comparison
    return dataclasses.replace(
        comparison,
        first_index=_index(first, actual.shape),
        first_actual=_plain(left[first]),
        first_expected=_plain(right[first]),
        window=_window(left, right, actual.shape, first, limit),
        histogram=_histogram(left, right, limit),
    )


def differing(one: Array, two: Array) -> Array:
    """Return a flat mask of the elements whose bits differ; all NaN count as equal.

    Which NaN an operation gives depends on its operands and their order.
    """
    left, right = (
        np.frombuffer(array.tobytes(), np.uint8).reshape(-1, array.itemsize) for array in (one, two)
    )
    off: Array = (left != right).any(axis=-1)
    at = np.flatnonzero(off)
    both = [np.isnan(array.reshape(-1)[at].astype(np.float64)) for array in (one, two)]
    off[at] = ~(both[0] & both[1])
    return off


def ulps(actual: Array, expected: Array) -> Array:
    """Return the distances in units of the last place of `actual`'s dtype, as u64.

    `UNKNOWN` where only one is NaN. `expected` may be of another dtype; it is rounded.
    """
    if actual.dtype.kind in "iub":
        return _integer_distance(actual, expected)
    with np.errstate(over="ignore", invalid="ignore"):
        near = expected.astype(actual.dtype)
    nan = np.isnan(actual.astype(np.float64)), np.isnan(near.astype(np.float64))
    distances = _apart(_ranks(actual), _ranks(near))
    distances[nan[0] & nan[1]] = 0
    distances[nan[0] ^ nan[1]] = UNKNOWN
    return distances


@dataclasses.dataclass(frozen=True, slots=True)
class _Chunk:
    """A part of two flat arrays with its distances."""

    start: int
    actual: Array
    expected: Array
    distance: Array
    ulps: Array
    wrong: Array


def _chunks(left: Array, right: Array, limit: Tolerance) -> Iterator[_Chunk]:
    for start in range(0, left.size, CHUNK):
        actual, expected = left[start : start + CHUNK], right[start : start + CHUNK]
        steps = ulps(actual, expected)
        if actual.dtype.kind in "iub":
            distance = steps.astype(np.float64)
        else:
            distance = _float_distance(actual, expected)
        yield _Chunk(
            start, actual, expected, distance, steps, _wrong(distance, expected, steps, limit)
        )


def _wrong(distance: Array, expected: Array, steps: Array, limit: Tolerance) -> Array:
    size = np.abs(expected.astype(np.float64))
    with np.errstate(invalid="ignore", over="ignore"):
        # A distance of 0 is right for every size, infinity included.
        allowed = limit.atol + limit.rtol * np.where(np.isfinite(size), size, 0.0)
        wrong: Array = (distance > 0) & ~(distance <= allowed)
    if limit.ulp:
        # Infinity is one ulp from the largest number, but right only where `expected` rounds to it.
        wrong &= (steps > limit.ulp) | (np.isinf(distance) & (steps > 0))
    return wrong


def _float_distance(actual: Array, expected: Array) -> Array:
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        distance: Array = np.abs(a - e)
    distance[(a == e) | (np.isnan(a) & np.isnan(e))] = 0.0
    distance[np.isnan(distance)] = np.inf
    return distance


def _integer_distance(actual: Array, expected: Array) -> Array:
    """Return |actual - expected| of integers, rounded up where `expected` has fractions."""
    both = {actual.dtype, expected.dtype}
    if expected.dtype.kind in "iub" and both != {np.dtype(np.uint64), np.dtype(np.int64)}:
        return _apart(actual, expected)
    with np.errstate(invalid="ignore"):
        distance = np.ceil(np.abs(actual.astype(np.float64) - expected.astype(np.float64)))
    known = distance < float(UNKNOWN)
    return np.where(known, np.where(known, distance, 0.0).astype(np.uint64), np.uint64(UNKNOWN))


def _apart(one: Array, other: Array) -> Array:
    """Return |one - other| of integers as u64, exact even where a signed difference overflows."""
    wide = np.uint64 if np.dtype(np.uint64) in (one.dtype, other.dtype) else np.int64
    a, b = one.astype(wide), other.astype(wide)
    return (np.maximum(a, b) - np.minimum(a, b)).view(np.uint64)


def _ranks(values: Array) -> Array:
    """Return the rank of each number among all numbers of its dtype; 0 for both zeros."""
    dtype = BY_NUMPY[values.dtype.name]
    bits = np.ascontiguousarray(values).view(_BITS[values.dtype.itemsize]).astype(np.int64)
    if dtype.name == "f8e8m0":  # it has no sign, and no zero
        return bits
    magnitude = bits & ((1 << (dtype.bits - 1)) - 1)
    sign = (bits >> (dtype.bits - 1)) & 1  # an arithmetic shift of 64 bits leaves ones above
    return np.where(sign == 1, -magnitude, magnitude)


def _window(
    left: Array, right: Array, shape: tuple[int, ...], first: int, limit: Tolerance
) -> tuple[Element, ...]:
    """Return the element at a position of flat arrays, with its neighbours in the same row."""
    row = shape[-1] if shape else 1
    start = first - min(BEFORE, first % row)
    end = first + min(BEHIND, row - 1 - first % row) + 1
    (near,) = _chunks(left[start:end], right[start:end], limit)
    return tuple(
        Element(
            index=_index(start + at, shape),
            ok=not near.wrong[at],
            got=_plain(near.actual[at]),
            expected=_plain(near.expected[at]),
            error=float(near.distance[at]),
            ulp=int(near.ulps[at]) if near.ulps[at] != UNKNOWN else None,
        )
        for at in range(end - start)
    )


def _histogram(left: Array, right: Array, tolerance: Tolerance) -> tuple[Bin, ...]:
    """Count elements by the decade of their error: equal ones first, not finite ones last."""
    counts: Counter[float] = Counter()
    off: Counter[float] = Counter()
    for chunk in _chunks(left, right, tolerance):
        with np.errstate(divide="ignore"):
            decades = np.floor(np.log10(chunk.distance))  # -inf for equal elements
        for values, counter in ((decades, counts), (decades[chunk.wrong], off)):
            distances, numbers = np.unique(values, return_counts=True)
            counter.update(dict(zip(distances.tolist(), numbers.tolist(), strict=True)))
    rows = [(0.0, 0.0, [-math.inf])]
    if finite := sorted(int(decade) for decade in counts if math.isfinite(decade)):
        least = max(finite[0], finite[-1] - MOST_DECADES + 1)
        rows.append((0.0, _power(least), [float(d) for d in finite if d < least]))
        shown = range(least, finite[-1] + 1)
        rows += [(_power(each), _power(each + 1), [float(each)]) for each in shown]
    rows.append((math.inf, math.inf, [math.inf]))
    bins = (
        Bin(low=low, high=high, count=sum(counts[d] for d in held), off=sum(off[d] for d in held))
        for low, high, held in rows
    )
    return tuple(each for each in bins if each.count or 0 < each.low < math.inf)


def _power(decade: int) -> float:
    return float(f"1e{decade}")  # 10.0**-7 is not the nearest number


def _index(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(position, shape)) if shape else ()


def _plain(value: Any) -> Number:
    """Return an element as a number of Python."""
    item = value.item()
    return item if isinstance(item, int | float | bool) else float(item)
