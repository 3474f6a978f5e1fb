"""Elements as they are held and as they lie in memory, constants, and changes of shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir.build import run_op, tile
from tilec_runtime.cpu.tileir.ir import NumberAttr, Padding, Pointer, Scalar, Tile, Type
from tilec_runtime.cpu.tileir.values import LAYOUTS, STORAGE, Array, elements, scalar


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
    assert found.dtype == STORAGE[element]
    assert found.shape == shape
    assert found.astype(np.float64).tolist() == np.array(expected, np.float64).tolist()
    assert not found.flags.writeable


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        (NumberAttr(Scalar.I8, 255), -1),
        (NumberAttr(Scalar.I64, 2**64 - 2), -2),
        (NumberAttr(Scalar.I1, 1), 1),
        (NumberAttr(Scalar.F32, 0xFF800000), -np.inf),
        (NumberAttr(Scalar.TF32, 0x1FC00), 1.0),
        (NumberAttr(Scalar.F4E2M1FN, 0xF), -6.0),
    ],
)
def test_numbers_of_attributes(attribute: NumberAttr, expected: float) -> None:
    found = scalar(attribute)
    assert found.shape == ()
    assert float(found) == expected


KINDS = list(Scalar)


def some(kind: Scalar, *shape: int) -> Array:
    """Elements of any type, by their bits, that are all different if the type has room."""
    held = STORAGE[kind]
    number = int(np.prod(shape))
    if kind is Scalar.I1:
        return (np.arange(number) % 3 == 0).reshape(shape)
    if kind.bits == 4:
        return (np.arange(number) % 7).astype(np.uint8).view(held).reshape(shape)
    return np.arange(1, number + 1).astype(f"u{held.itemsize}").view(held).reshape(shape)


def same(found: Array, wanted: Array) -> bool:
    """Whether arrays hold the same bits."""
    assert found.dtype == wanted.dtype
    bits = f"u{found.dtype.itemsize}"
    return found.shape == wanted.shape and bool(
        (np.ascontiguousarray(found).view(bits) == np.ascontiguousarray(wanted).view(bits)).all()
    )


def one(name: str, source: Array, kind: Type, result: Type, **attributes: object) -> Array:
    (found,) = run_op(name, {"source": (kind, source)}, result, attributes)
    return found


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_changes_of_shape_keep_the_elements(kind: Scalar) -> None:
    held = some(kind, 2, 4, 1, 3)
    found = one("broadcast", held, tile(kind, 4, 1, 3), tile(kind, 4, 2, 3))
    assert same(found, np.broadcast_to(held, (2, 4, 2, 3)))
    assert not found.flags.owndata
    found = one("reshape", held, tile(kind, 4, 1, 3), tile(kind, 2, 6))
    assert same(found, held.reshape(2, 2, 6))
    found = one("permute", held, tile(kind, 4, 1, 3), tile(kind, 3, 4, 1), permutation=(2, 0, 1))
    assert same(found, held.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_tiles_are_joined_along_a_dimension(kind: Scalar) -> None:
    first, second = some(kind, 3, 2, 4), some(kind, 1, 2, 4)
    operands = {"lhs": (tile(kind, 2, 4), first), "rhs": (tile(kind, 2, 4), second)}
    (rows,) = run_op("cat", operands, tile(kind, 4, 4), {"dim": 0})
    assert same(rows, np.concatenate((first, np.broadcast_to(second, first.shape)), axis=1))
    (columns,) = run_op("cat", operands, tile(kind, 2, 8), {"dim": 1})
    assert same(columns, np.concatenate((first, np.broadcast_to(second, first.shape)), axis=2))


@pytest.mark.parametrize("kind", [*KINDS, Pointer(Scalar.F32)], ids=str)
@pytest.mark.parametrize("rows", [(3, 3, 3), (3, 1, 1), (1, 3, 1), (1, 1, 3), (1, 1, 1)])
def test_elements_are_chosen(kind: Scalar | Pointer, rows: tuple[int, int, int]) -> None:
    element = kind if isinstance(kind, Scalar) else Scalar.I64
    condition = (np.arange(rows[0] * 8) % 3 == 0).reshape(rows[0], 8)
    first, second = some(element, rows[1], 8), some(element, rows[2], 8)[:, ::-1]
    operands = {
        "condition": (tile(Scalar.I1, 8), condition),
        "if_true": (tile(kind, 8), first),
        "if_false": (tile(kind, 8), second),
    }
    (found,) = run_op("select", operands, tile(kind, 8))
    assert same(found, np.where(condition, first, second))


def indices(*columns: list[int]) -> list[tuple[Type, Array]]:
    return [(tile(Scalar.I32), np.array(column, np.int32)) for column in columns]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("rows", [1, 3])
def test_parts_are_taken_out_and_put_in_by_number(kind: Scalar, rows: int) -> None:
    whole, part = some(kind, 3, 4, 6), some(kind, 3, 2, 2)
    numbers = [(0, 2), (1, 0), (1, 1)]
    places = [np.s_[2 * row : 2 * row + 2, 2 * column : 2 * column + 2] for row, column in numbers]
    index = indices(*(list(column) for column in zip(*numbers, strict=True)))
    operands: dict[str, Any] = {"source": (tile(kind, 4, 6), whole[:rows]), "indices": index}
    (found,) = run_op("extract", operands, tile(kind, 2, 2))
    assert same(found, np.stack([whole[n if rows > 1 else 0][at] for n, at in enumerate(places)]))
    operands["indices"] = indices([1], [2])
    (found,) = run_op("extract", operands, tile(kind, 2, 2))
    assert same(found, whole[:rows, 2:4, 4:6])
    before, want = whole.copy(), whole.copy()
    for block, at in enumerate(places):
        want[block][at] = part[block if rows > 1 else 0]
    operands = {"source": (tile(kind, 2, 2), part[:rows]), "indices": index}
    (found,) = run_op(
        "insert", {**operands, "destination": (tile(kind, 4, 6), whole)}, tile(kind, 4, 6)
    )
    assert same(found, want)
    assert same(whole, before)


def test_a_part_that_does_not_exist_is_the_nearest_one() -> None:
    held = some(Scalar.I32, 2, 4)
    (found,) = run_op(
        "extract",
        {"source": (tile(Scalar.I32, 4), held), "indices": indices([7, -3])},
        tile(Scalar.I32, 2),
    )
    assert same(found, np.stack((held[0, 2:], held[1, :2])))
