"""Comparison: tolerances by dtype, NaN and infinity, integers beyond f64, the first difference."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tilec.case import compare as compare_module
from tilec.case.compare import compare, tolerance_for
from tilec.manifest.types import Tolerance

EXACT = Tolerance()


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_equal_arrays() -> None:
    result = compare(f32(1, -2, 0), f32(1, -2, 0), EXACT)
    assert (
        result.ok,
        result.max_abs,
        result.max_rel,
        result.mismatches,
        result.total,
        result.first_index,
    ) == (True, 0, 0, 0, 3, None)


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


def test_tolerance_is_absolute_plus_relative() -> None:
    assert compare(f32(110), f32(100), Tolerance(rtol=0.1)).ok
    assert not compare(f32(111), f32(100), Tolerance(rtol=0.1)).ok
    assert compare(f32(111), f32(100), Tolerance(rtol=0.1, atol=1)).ok


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


def test_low_precision_is_compared_wide() -> None:
    actual = np.array([60000.0, -60000.0], np.float16)
    assert compare(actual, -actual, EXACT).max_abs == 120000.0  # beyond f16
    assert compare(np.ones(3, ml_dtypes.bfloat16), np.ones(3), EXACT).ok
    assert compare(np.ones(3, ml_dtypes.float8_e4m3fn), np.ones(3)).ok


def test_integers_are_exact_in_all_of_their_bits() -> None:
    big = 2**62
    assert compare(np.array([big]), np.array([big + 1]), EXACT).max_abs == 1.0
    result = compare(np.array([-(2**63)]), np.array([2**63 - 1]), EXACT)
    assert result.max_abs == float(2**64 - 1)
    assert result.first_actual == -(2**63)
    assert not compare(np.array([2**63], np.uint64), np.array([2**63 + 1], np.uint64)).ok
    assert compare(np.array([True, False]), np.array([True, False])).ok
    assert not compare(np.array([True, False]), np.array([True, True])).ok


def test_empty_and_zero_dimensional_arrays() -> None:
    assert compare(np.zeros((0, 3), np.float32), np.zeros((0, 3))).ok
    result = compare(np.array(1.0, np.float32), np.array(2.0))
    assert result.first_index == ()


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="shapes differ"):
        compare(np.zeros(3, np.float32), np.zeros((3, 1)))


def test_chunks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    actual = rng.normal(size=(11, 13)).astype(np.float32)
    expected = actual.astype(np.float64) + (rng.random((11, 13)) > 0.9)
    whole = compare(actual, expected)
    monkeypatch.setattr(compare_module, "CHUNK", 10)
    assert compare(actual, expected) == whole
    assert whole.mismatches > 0


def test_which_tolerance_holds() -> None:
    general, half = Tolerance(rtol=1, atol=1), Tolerance(rtol=2, dtype="f16")
    assert tolerance_for((general, half), "f16") == half
    assert tolerance_for((general, half), "f32") == general
    assert tolerance_for((half,), "i32") == Tolerance(dtype="i32")
    assert (
        tolerance_for((), "bf16").rtol
        > tolerance_for((), "f16").rtol
        > tolerance_for((), "f32").rtol
        > tolerance_for((), "f64").rtol
    )


@settings(max_examples=40, deadline=None)
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


def test_an_infinity_fits_in_ulp_only_where_the_reference_rounds_to_it() -> None:
    inf16 = np.array([math.inf], np.float16)
    assert compare(inf16, np.array([65520.0]), Tolerance(ulp=1)).ok
    assert not compare(inf16, np.array([65519.0]), Tolerance(ulp=1)).ok
    assert not compare(inf16, np.array([math.nan]), Tolerance(ulp=1)).ok
    assert compare(inf16, np.array([math.nan])).max_ulp is None


def test_an_integer_that_wraps_is_far_off_in_ulp() -> None:
    assert compare(np.array([0], np.uint8), np.array([1], np.int64), Tolerance(ulp=1)).ok
    assert not compare(np.array([0], np.uint8), np.array([256], np.int64), Tolerance(ulp=1)).ok
    assert not compare(np.array([0], np.uint8), np.array([1.5]), Tolerance(ulp=1)).ok
