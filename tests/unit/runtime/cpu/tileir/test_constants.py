"""What the bytes of constants mean; the values are what the toolkit's disassembler prints for them."""

from __future__ import annotations

import numpy as np
import pytest

from tilec_runtime.cpu.tileir.ir import FloatAttr, IntegerAttr, Scalar, Tile
from tilec_runtime.cpu.tileir.values import STORAGE, elements, scalar, sizes


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
