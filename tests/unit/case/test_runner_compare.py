"""Comparison: tolerances by dtype, NaN and infinity, integers beyond f64, the first difference."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.amount import examples
from tilec.case import compare as compare_module
from tilec.case.compare import (
    UNKNOWN,
    compare,
    ulps,
)
from tilec.manifest.types import Tolerance

EXACT = Tolerance()


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_the_first_difference_is_named_with_both_values() -> None:
    actual = np.zeros((2, 3), np.float32)
    expected = np.zeros((2, 3))
    actual[1, 0], expected[1, 0] = 1.5, 1.0
    actual[1, 2], expected[1, 2] = 3.0, 7.0
    result = compare(actual, expected, EXACT)
    assert not result.ok
    assert (result.first_index, result.first_actual, result.first_expected) == ((1, 0), 1.5, 1.0)
    assert (result.mismatches, result.total, result.max_abs) == (2, 6, 4.0)
    assert result.max_rel == pytest.approx(4 / 7)


@pytest.mark.parametrize(
    ("actual", "expected", "ok"),
    [
        (math.nan, math.nan, True),
        (math.inf, math.inf, True),
        (-math.inf, -math.inf, True),
        (math.nan, 1.0, False),
        (1.0, math.nan, False),
        (math.inf, -math.inf, False),
        (math.inf, 1.0, False),
        (1.0, math.inf, False),
    ],
)
def test_nan_and_infinity(actual: float, expected: float, ok: bool) -> None:
    result = compare(f32(0, actual), f32(0, expected), Tolerance(rtol=1e9, atol=1e9))
    assert result.ok is ok
    assert result.max_abs == (0 if ok else math.inf)


def test_integers_are_exact_in_all_of_their_bits() -> None:
    big = 2**62
    assert compare(np.array([big]), np.array([big + 1]), EXACT).max_abs == 1.0
    result = compare(np.array([-(2**63)]), np.array([2**63 - 1]), EXACT)
    assert result.max_abs == float(2**64 - 1)
    assert result.first_actual == -(2**63)
    assert not compare(np.array([2**63], np.uint64), np.array([2**63 + 1], np.uint64)).ok
    assert compare(np.array([True, False]), np.array([True, False])).ok
    assert not compare(np.array([True, False]), np.array([True, True])).ok


def test_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    actual = rng.normal(size=(11, 13)).astype(np.float32)
    expected = actual.astype(np.float64) + (rng.random((11, 13)) > 0.9)
    whole = compare(actual, expected)
    monkeypatch.setattr(compare_module, "CHUNK", 10)
    assert compare(actual, expected) == whole
    assert whole.mismatches > 0


@examples(40)
@given(
    hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=5), elements=st.floats(width=32))
)
def test_anything_equals_itself_and_nothing_else(array: np.ndarray) -> None:
    assert compare(array, array.copy(), EXACT).ok
    other = array.copy()
    other.flat[-1] = 1.0 if np.isnan(other.flat[-1]) or other.flat[-1] != 1.0 else 2.0
    result = compare(other, array, EXACT)
    assert result.mismatches == 1
    assert result.first_index == tuple(side - 1 for side in array.shape)


@pytest.mark.parametrize(
    ("tolerance", "off"),
    [
        (Tolerance(ulp=2), 3),
        (Tolerance(ulp=4), 2),
        (Tolerance(ulp=2, atol=1e-3), 1),  # either of both
        (Tolerance(ulp=0, rtol=1e-12), 4),
    ],
)
def test_a_tolerance_in_ulp_knows_the_size_of_each_number(tolerance: Tolerance, off: int) -> None:
    """One is 2 numbers off at 1e30, one 4 at 1, one is at the other side of zero, one is infinite
    next to the largest number.
    """
    expected = f32(1e30, 1, 1e-44, np.finfo(np.float32).max)
    actual = f32(
        np.nextafter(np.nextafter(expected[0], expected[1]), expected[1]),
        1 + 4 * 2.0**-23,
        -1e-44,
        math.inf,
    )
    found = compare(actual, expected, tolerance)
    assert (found.mismatches, found.max_ulp) == (off, 14)


@pytest.mark.parametrize(
    ("got", "expected", "count"),
    [
        (np.float32(1), np.nextafter(np.float32(1), np.float32(2)), 1),
        (np.float32(0.0), np.float32(-0.0), 0),
        (np.float32(-1e-45), np.float32(1e-45), 2),
        (np.float32(1), np.float64(1 + 1e-12), 0),
        (np.float32("inf"), np.finfo(np.float32).max, 1),
        (np.float32(1), np.float64(1e300), 0x7F800000 - 0x3F800000),
        (np.float32("nan"), np.float32(1), UNKNOWN),
        (np.float32(1), np.float64("nan"), UNKNOWN),
        (np.float32("nan"), np.float64("nan"), 0),
        (np.float64(1), np.nextafter(1.0, 0.0), 1),
        (np.float64("-inf"), np.float64("inf"), 2 * 0x7FF0000000000000),
        (np.float16(2), np.float16(1), 1024),
        (np.asarray(1, ml_dtypes.bfloat16), 1.0078125, 1),
        (np.asarray(-1, ml_dtypes.float8_e4m3fn), 1.0, 2 * 0x38),
        (np.asarray(1, ml_dtypes.float8_e8m0fnu), 4.0, 2),
        (np.asarray(1, ml_dtypes.float4_e2m1fn), -0.5, 3),
        (np.int32(-(2**31)), np.int32(2**31 - 1), 2**32 - 1),
        (np.int64(-(2**63)), np.int64(2**63 - 1), 2**64 - 1),
        (np.uint64(2**64 - 1), np.int32(0), 2**64 - 1),
        (np.uint64(5), np.int64(3), 2),
        (np.int32(7), np.float64(5.5), 2),
        (np.int32(7), np.float64("nan"), UNKNOWN),
        (np.True_, np.False_, 1),
    ],
)
def test_ulps(got: Any, expected: Any, count: int) -> None:
    assert ulps(np.asarray(got).reshape(1), np.asarray(expected).reshape(1)).tolist() == [count]


CLOSE = Tolerance(rtol=1e-5, atol=1e-6)


def test_errors_by_decade() -> None:
    expected = np.zeros(8, np.float32)
    actual = np.array([0, 0, 5e-7, 2e-3, 3e-3, 0.5, np.nan, np.inf], np.float32)
    rows = [(row.label, row.count, row.off) for row in compare(actual, expected, CLOSE).histogram]
    assert rows == [
        ("equal", 2, 0),
        ("1e-07 to 1e-06", 1, 0),
        ("1e-06 to 1e-05", 0, 0),
        ("1e-05 to 1e-04", 0, 0),
        ("1e-04 to 1e-03", 0, 0),
        ("1e-03 to 1e-02", 2, 2),
        ("1e-02 to 1e-01", 0, 0),
        ("1e-01 to 1e+00", 1, 1),
        ("not finite", 2, 2),
    ]
