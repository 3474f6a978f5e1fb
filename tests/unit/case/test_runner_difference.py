"""Where arrays differ: neighbours, ulps, and errors by decade."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilec.case.difference import MOST_DECADES, Difference, difference_of
from tilec.manifest.types import Tolerance
from tilec_runtime.model.dtype import DTYPES

CLOSE = Tolerance(rtol=1e-5, atol=1e-6)


def difference(
    actual: Any, expected: Any, first: tuple[int, ...], dtype: str = "f32"
) -> Difference:
    numpy = np.dtype(DTYPES[dtype].numpy)
    return difference_of(np.asarray(actual, numpy), np.asarray(expected), CLOSE, first)


def test_the_window_stays_in_the_row() -> None:
    expected = np.arange(30, dtype=np.float32).reshape(3, 10)
    actual = expected.copy()
    actual[1, 8] = 99
    shown = difference(actual, expected, (1, 8)).window
    assert [one.index for one in shown] == [(1, 5), (1, 6), (1, 7), (1, 8), (1, 9)]
    assert [one.ok for one in shown] == [True, True, True, False, True]
    wrong = shown[3]
    assert (wrong.got, wrong.expected, wrong.error) == (99.0, 18.0, 81.0)
    assert [one.index for one in difference(actual, expected, (1, 0)).window] == [
        (1, 0),
        (1, 1),
        (1, 2),
        (1, 3),
        (1, 4),
    ]


def test_an_output_of_one_element() -> None:
    (only,) = difference(2.0, 3.0, ()).window
    assert (only.index, only.ok, only.got, only.expected, only.error) == ((), False, 2.0, 3.0, 1.0)


def test_errors_by_decade() -> None:
    expected = np.zeros(8, np.float32)
    actual = np.array([0, 0, 5e-7, 2e-3, 3e-3, 0.5, np.nan, np.inf], np.float32)
    rows = [(row.label, row.count, row.off) for row in difference(actual, expected, (3,)).histogram]
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


def test_small_errors_share_a_row() -> None:
    actual = np.array([1e-30, 1e-20, 4.0], np.float64)
    rows = difference(actual, np.zeros(3), (2,), "f64").histogram
    assert len(rows) == MOST_DECADES + 1
    assert (rows[0].label, rows[0].count, rows[0].low) == ("below 1e-07", 2, 0.0)
    assert (rows[-1].label, rows[-1].count) == ("1e+00 to 1e+01", 1)
    extreme = difference(np.array([5e-324, 1.7e308]), np.zeros(2), (1,), "f64").histogram
    assert [row.count for row in extreme if row.count] == [1, 1]
    assert math.isinf(extreme[-1].high)


def test_integers_are_exact() -> None:
    found = difference_of(np.array([2**63 - 1, 5]), np.array([2**63 - 2, 5]), Tolerance(), (0,))
    assert (found.window[0].error, found.window[0].ulp, found.window[0].ok) == (1.0, 1, False)
    assert [(row.label, row.count, row.off) for row in found.histogram] == [
        ("equal", 1, 0),
        ("1e+00 to 1e+01", 1, 1),
    ]
