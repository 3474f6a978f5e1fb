"""Elements as they lie in memory."""

from __future__ import annotations

import numpy as np
import pytest

from tilec_runtime.cpu.tileir.ir import Padding, Scalar
from tilec_runtime.cpu.tileir.values import LAYOUTS, STORAGE


@pytest.mark.parametrize("element", Scalar, ids=str)
def test_elements_survive_memory_and_back(element: Scalar) -> None:
    kind = LAYOUTS[element]
    assert kind.packed == (element.bits == 4)
    assert kind.size == max(element.bits, 8 if element is not Scalar.TF32 else 32) // 8
    raw = np.arange(2 if element is Scalar.I1 else 16, dtype=np.uint8)
    if kind.size > 1:
        raw = np.random.default_rng(0).integers(0, 256, 16 * kind.size, np.uint8).view(kind.raw)
    held = kind.decode(raw)
    assert held.dtype == STORAGE[element]
    again = kind.encode(held)
    assert again.dtype == kind.raw
    if element is not Scalar.TF32:
        assert again.tobytes() == raw.tobytes()
    assert kind.decode(again).tobytes() == held.tobytes()


def test_tf32_has_ten_bits_of_fraction() -> None:
    held = LAYOUTS[Scalar.TF32].decode(np.array([1 + 2**-10 + 2**-11, -3.0], np.float32))
    assert held.tolist() == [1 + 2**-10, -3]


@pytest.mark.parametrize(
    "element",
    [Scalar.F16, Scalar.BF16, Scalar.F32, Scalar.TF32, Scalar.F64, Scalar.F8E5M2],
    ids=str,
)
def test_padding_of_floats(element: Scalar) -> None:
    values = {
        Padding.ZERO: 0.0,
        Padding.NEG_ZERO: -0.0,
        Padding.NAN: np.nan,
        Padding.POS_INF: np.inf,
        Padding.NEG_INF: -np.inf,
    }
    for padding, value in values.items():
        found = np.float64(
            LAYOUTS[element].decode(np.array([LAYOUTS[element].padding(padding)]))[0]
        )
        assert np.signbit(found) == np.signbit(value)
        np.testing.assert_equal(found, value)


def test_padding_where_a_format_has_no_such_number() -> None:
    assert np.isnan(np.float32(LAYOUTS[Scalar.F8E4M3FN].padding(Padding.POS_INF)))
    assert LAYOUTS[Scalar.F8E8M0FNU].padding(Padding.ZERO).tobytes() == b"\0"
    assert LAYOUTS[Scalar.F8E5M3FNU].padding(Padding.NEG_ZERO) == 0
    assert LAYOUTS[Scalar.F8E5M3FNU].padding(Padding.NAN) == 0xFF
    assert LAYOUTS[Scalar.I32].padding(Padding.ZERO) == 0
    assert LAYOUTS[Scalar.F4E2M1FN].padding(Padding.NEG_ZERO) == 8
