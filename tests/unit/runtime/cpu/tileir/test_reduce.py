"""Reductions and scans: known ways of combining, and any others."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir import tolerance
from tests.unit.runtime.cpu.tileir.build import Builder, run_op, tile
from tests.unit.runtime.cpu.tileir.samples import held_integers, signed
from tilec_runtime.cpu.tileir.frame import Frame
from tilec_runtime.cpu.tileir.ir import (
    Block,
    Op,
    Ordering,
    Overflow,
    Predicate,
    Rounding,
    Scalar,
    Signedness,
    Value,
)
from tilec_runtime.cpu.tileir.values import Array, storage

NEAREST = {"rounding": Rounding.NEAREST_EVEN}
WRAPPING = {"overflow": Overflow.NONE}
FLOATS = [Scalar.F16, Scalar.BF16, Scalar.F32, Scalar.F64]
INTEGERS = [Scalar.I1, Scalar.I4, Scalar.I8, Scalar.I16, Scalar.I32, Scalar.I64]
Regions = Callable[[Builder], Sequence[Block]]


def single(
    name: str, kind: Scalar, attributes: Mapping[str, Any], swapped: bool = False
) -> Regions:
    """A region of one operation on the current element and the previous one."""

    def regions(builder: Builder) -> Sequence[Block]:
        def fill(current: Value, previous: Value) -> None:
            pair = (previous, current) if swapped else (current, previous)
            made = builder.op(name, {"lhs": pair[0], "rhs": pair[1]}, tile(kind), attributes)
            builder.op("yield", {"values": made})

        return [builder.region([tile(kind)] * 2, fill)]

    return regions


def reduce(held: Array, kind: Scalar, dim: int, regions: Regions, **more: Any) -> Array:
    shape = held.shape[1:]
    left = shape[:dim] + shape[dim + 1 :]
    attributes = {"dim": dim, "identities": ()}
    (found,) = run_op(
        "reduce",
        {"operands": [(tile(kind, *shape), held)]},
        tile(kind, *left),
        attributes,
        regions,
        **more,
    )
    assert found.dtype == storage(kind)
    assert found.shape[1:] == left
    return found


def scan(held: Array, kind: Scalar, dim: int, reverse: bool, regions: Regions) -> Array:
    shape = tile(kind, *held.shape[1:])
    attributes = {"dim": dim, "reverse": reverse, "identities": ()}
    (found,) = run_op("scan", {"operands": [(shape, held)]}, shape, attributes, regions)
    assert found.dtype == storage(kind)
    assert found.shape == held.shape
    return found


def random(kind: Scalar, *shape: int) -> Array:
    return np.random.default_rng(2).standard_normal(shape).astype(storage(kind))


@pytest.mark.parametrize("kind", [Scalar.F16, Scalar.F32], ids=str)
def test_long_sums_stay_near(kind: Scalar) -> None:
    held = np.full((1, 4096, 2), 0.1).astype(storage(kind))
    for source, dim in ((held, 0), (held.transpose(0, 2, 1).copy(), 1)):
        found = reduce(source, kind, dim, single("addf", kind, NEAREST)).astype(float)
        exact = 4096 * float(held.flat[0])
        assert np.abs(found - exact).max() <= tolerance.of_sum(kind, 11 + 12) * exact


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["maxf", "minf"])
@pytest.mark.parametrize("propagate", [False, True])
def test_extremes_of_floats(name: str, propagate: bool, kind: Scalar) -> None:
    nan, inf = math.nan, math.inf
    rows = [
        [1, 2, -3, 0],
        [nan, 1, 2, 3],
        [nan] * 4,
        [-0.0, 0.0, -0.0, -0.0],
        [-0.0] * 4,
        [-inf, 1, inf, 2],
        [0.0, 5, -0.0, -5],
        [0, -0.0, 1, 0],
    ]
    held = np.array([rows]).astype(storage(kind))
    regions = single(name, kind, {"propagate_nan": propagate})
    ordered = sorted if name == "minf" else functools.partial(sorted, reverse=True)
    want = []
    for row in rows:
        numbers = [number for number in row if not math.isnan(number)]
        lost = not numbers or (propagate and len(numbers) < len(row))
        want.append(
            nan
            if lost
            else ordered(numbers, key=lambda number: (number, math.copysign(1, number)))[0]
        )
    across = reduce(held, kind, 1, regions)[0].astype(float)
    down = reduce(held.transpose(0, 2, 1).copy(), kind, 0, regions)[0].astype(float)
    for found in (across, down):
        np.testing.assert_array_equal(found, want)
        numbers = ~np.isnan(want)
        assert (np.signbit(found)[numbers] == np.signbit(want)[numbers]).all()


def sequential(numbers: list[int], kind: Scalar, combine: Callable[[int, int], int]) -> list[int]:
    found = [numbers[0]]
    half = 1 << (kind.bits - 1)
    for number in numbers[1:]:
        found.append((combine(found[-1], number) + half) % (2 * half) - half)
    return found


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
@pytest.mark.parametrize(
    "name", ["addi", "muli", "andi", "ori", "xori", "maxi", "mini", "umax", "umin"]
)
def test_reductions_and_scans_of_integers(name: str, kind: Scalar) -> None:
    mask = (1 << kind.bits) - 1
    combine: Callable[[int, int], int] = {
        "addi": lambda x, y: x + y,
        "muli": lambda x, y: x * y,
        "andi": lambda x, y: x & y,
        "ori": lambda x, y: x | y,
        "xori": lambda x, y: x ^ y,
        "maxi": max,
        "mini": min,
        "umax": lambda x, y: max(x, y, key=lambda n: n & mask),
        "umin": lambda x, y: min(x, y, key=lambda n: n & mask),
    }[name]
    rng = np.random.default_rng(kind.bits)
    half = 1 << (kind.bits - 1)
    numbers = [
        [int(n) for n in rng.integers(-half, half - 1, 8, dtype=np.int64, endpoint=True)]
        for _ in range(3)
    ]
    held = np.stack([held_integers(row, kind) for row in numbers])[None]
    attributes: dict[str, Any] = {
        "signedness": Signedness.UNSIGNED if name[0] == "u" else Signedness.SIGNED
    }
    regions = single(
        {"umax": "maxi", "umin": "mini"}.get(name, name), kind, {**attributes, **WRAPPING}
    )
    want = [sequential(row, kind, combine) for row in numbers]
    assert signed(reduce(held, kind, 1, regions), kind) == [row[-1] for row in want]
    assert signed(reduce(held.transpose(0, 2, 1).copy(), kind, 0, regions), kind) == [
        row[-1] for row in want
    ]
    assert signed(scan(held, kind, 1, False, regions), kind) == [
        number for row in want for number in row
    ]
    back = [sequential(row[::-1], kind, combine)[::-1] for row in numbers]
    assert signed(scan(held, kind, 1, True, regions), kind) == [
        number for row in back for number in row
    ]


def test_a_region_that_is_not_known_runs_on_pairs() -> None:
    def regions(builder: Builder) -> Sequence[Block]:
        def fill(current: Value, previous: Value) -> None:
            # 2 + 3 * ... keeps no known form: max(current, previous) plus nothing, said in two
            # steps.
            bigger = builder.op(
                "cmpi",
                {"lhs": current, "rhs": previous},
                tile(Scalar.I1),
                {"predicate": Predicate.GREATER_THAN, "signedness": Signedness.SIGNED},
            )
            builder.op(
                "yield",
                {
                    "values": builder.op(
                        "select",
                        {"condition": bigger, "if_true": current, "if_false": previous},
                        tile(Scalar.I32),
                    )
                },
            )

        return [builder.region([tile(Scalar.I32)] * 2, fill)]

    held = np.random.default_rng(0).integers(-99, 99, (3, 4, 7)).astype(np.int32)
    for dim in (0, 1):
        assert reduce(held, Scalar.I32, dim, regions).tolist() == held.max(axis=dim + 1).tolist()
        assert (
            scan(held, Scalar.I32, dim, False, regions).tolist()
            == np.maximum.accumulate(held, axis=dim + 1).tolist()
        )
    back = np.maximum.accumulate(held[..., ::-1], axis=2)[..., ::-1]
    assert scan(held, Scalar.I32, 1, True, regions).tolist() == back.tolist()


def test_the_order_of_elements_is_kept_where_it_matters() -> None:
    # Taking the later one of two elements is associative, but not commutative.
    def later(builder: Builder) -> Sequence[Block]:
        def fill(current: Value, previous: Value) -> None:
            zero = builder.constant(0, Scalar.I32)
            builder.op(
                "yield",
                {
                    "values": builder.op(
                        "addi",
                        {
                            "lhs": current,
                            "rhs": builder.op(
                                "muli", {"lhs": previous, "rhs": zero}, tile(Scalar.I32), WRAPPING
                            ),
                        },
                        tile(Scalar.I32),
                        WRAPPING,
                    )
                },
            )

        return [builder.region([tile(Scalar.I32)] * 2, fill)]

    held = np.arange(10, dtype=np.int32).reshape(2, 5)
    assert reduce(held, Scalar.I32, 0, later).tolist() == [4, 9]
    assert scan(held, Scalar.I32, 0, False, later).tolist() == held.tolist()


def test_several_operands_are_combined_together() -> None:
    """The place of the largest element, the first one of equals."""

    def regions(builder: Builder) -> Sequence[Block]:
        def fill(value: Value, best: Value, place: Value, best_place: Value) -> None:
            better = builder.op(
                "cmpf",
                {"lhs": value, "rhs": best},
                tile(Scalar.I1),
                {"predicate": Predicate.GREATER_THAN, "ordering": Ordering.ORDERED},
            )
            chosen = [
                builder.op("select", {"condition": better, "if_true": new, "if_false": old}, kind)
                for new, old, kind in (
                    (value, best, tile(Scalar.F32)),
                    (place, best_place, tile(Scalar.I32)),
                )
            ]
            builder.op("yield", {"values": chosen})

        return [builder.region([tile(Scalar.F32)] * 2 + [tile(Scalar.I32)] * 2, fill)]

    held = np.random.default_rng(1).integers(0, 6, (3, 4, 16)).astype(np.float32)
    places = np.broadcast_to(np.arange(16, dtype=np.int32), (1, 4, 16))
    operands = [(tile(Scalar.F32, 4, 16), held), (tile(Scalar.I32, 4, 16), places)]
    results = [tile(Scalar.F32, 4), tile(Scalar.I32, 4)]
    values, found = run_op(
        "reduce", {"operands": operands}, results, {"dim": 1, "identities": ()}, regions
    )
    assert values.tolist() == held.max(axis=2).tolist()
    assert found.tolist() == held.argmax(axis=2).tolist()
    whole = [tile(Scalar.F32, 4, 16), tile(Scalar.I32, 4, 16)]
    values, found = run_op(
        "scan",
        {"operands": operands},
        whole,
        {"dim": 1, "reverse": False, "identities": ()},
        regions,
    )
    assert values.tolist() == np.maximum.accumulate(held, axis=2).tolist()
    assert (np.take_along_axis(held, found.astype(np.int64), axis=2) == values).all()


def test_rounding_other_than_to_nearest_is_kept_in_sums() -> None:
    held = np.array([[1.0, 2.0**-30, 2.0**-30, 2.0**-30]], np.float32)
    found = reduce(
        held, Scalar.F32, 0, single("addf", Scalar.F32, {"rounding": Rounding.POSITIVE_INF})
    )
    exact = sum((Fraction(float(number)) for number in held[0]), Fraction(0))
    assert Fraction(float(found[0])) > exact
    assert reduce(
        held, Scalar.F32, 0, single("addf", Scalar.F32, {"rounding": Rounding.ZERO})
    ).tolist() == [1.0]


def test_a_promise_inside_a_reduction_is_watched() -> None:
    class Watcher:
        seen = 0

        def overflowed(self, op: Op, frame: Frame, wrapped: Array) -> None:
            self.seen += int(wrapped.sum())

    watcher: Any = Watcher()
    held = np.array([[100, 100, 1, 1], [1, 2, 3, 4]], np.int8)
    found = reduce(
        held, Scalar.I8, 0, single("addi", Scalar.I8, {"overflow": Overflow.NSW}), observer=watcher
    )
    assert found.tolist() == [-54, 10]
    assert watcher.seen == 1
