"""Elements as they are held and as they lie in memory, constants among them."""

from __future__ import annotations

import numpy as np
import pytest

from tilec_runtime.cpu.tileir.ir import FloatAttr, IntegerAttr, Padding, Scalar, Tile
from tilec_runtime.cpu.tileir.values import LAYOUTS, STORAGE, elements, scalar, sizes


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


@pytest.mark.parametrize(
    ("element", "shape", "data", "expected"),
    [
        (Scalar.I32, (2,), b"\xff\xff\xff\xff\2\0\0\0", [-1, 2]),
        (Scalar.I32, (2, 2), b"\2\0\0\0", [[2, 2], [2, 2]]),
        (Scalar.I1, (4,), b"\xf5", [True, False, True, False]),
        (Scalar.I1, (4,), b"\1", [True, False, False, False]),
        (Scalar.I1, (16,), b"\5\1", [True, False, True, *[False] * 5, True, *[False] * 7]),
        (Scalar.I1, (16,), b"\1", [True] * 16),
        (Scalar.I1, (16,), b"\0", [False] * 16),
        (Scalar.I1, (), b"\xff", True),
        (Scalar.I1, (), b"\2", False),
        (Scalar.I4, (2,), b"\x1f\2", [-1, 2]),
        (Scalar.F4E2M1FN, (2,), b"\x1f\2", [-6.0, 1.0]),
        (Scalar.F8E4M3FN, (2, 2), b"\1\2\3\4", [[1 / 512, 2 / 512], [3 / 512, 4 / 512]]),
        (Scalar.F8E8M0FNU, (2,), b"\x7f\x80", [1.0, 2.0]),
        (Scalar.F8E5M3FNU, (2,), b"\1\2", [1, 2]),
        (Scalar.BF16, (), b"\x80\x3f", 1.0),
        (Scalar.TF32, (1,), b"\x00\xfc\x01", [1.0]),
        (Scalar.F64, (1,), b"\0\0\0\0\0\0\xf0\x3f", [1.0]),
    ],
)
def test_elements(element: Scalar, shape: tuple[int, ...], data: bytes, expected: object) -> None:
    kind = Tile(element, shape)
    found = elements(kind, data)
    assert len(data) in sizes(kind)
    assert found.dtype == STORAGE[element]
    assert found.shape == shape
    assert found.astype(np.float64).tolist() == np.array(expected, np.float64).tolist()
    assert not found.flags.writeable


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        (IntegerAttr(Scalar.I8, 255), -1),
        (IntegerAttr(Scalar.I64, 2**64 - 2), -2),
        (IntegerAttr(Scalar.I1, 1), 1),
        (FloatAttr(Scalar.F32, 0xFF800000), -np.inf),
        (FloatAttr(Scalar.TF32, 0x1FC00), 1.0),
        (FloatAttr(Scalar.F4E2M1FN, 0xF), -6.0),
    ],
)
def test_numbers_of_attributes(attribute: IntegerAttr | FloatAttr, expected: float) -> None:
    found = scalar(attribute)
    assert found.shape == ()
    assert float(found) == expected
