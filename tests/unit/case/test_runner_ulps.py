"""Distances in numbers of a dtype: of every kind, across zero, to NaN and infinity, and against
wider dtypes.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilec.case.ulps import UNKNOWN, ulps


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


def test_arrays_of_any_layout() -> None:
    whole = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert not ulps(whole.T, whole.T.astype(np.float64)).any()
    assert ulps(whole[:, ::2], whole[:, ::2]).shape == (3, 2)
