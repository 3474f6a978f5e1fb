"""Reductions and scans: known ways of combining, and any others."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir import tolerance
from tests.unit.runtime.cpu.tileir.build import Builder, run_op, tile
from tests.unit.runtime.cpu.tileir.samples import held_integers, signed
from tests.unit.runtime.cpu.tileir.watching import Watcher
from tilec_runtime.cpu.tileir.ir import (
    Block,
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


def extreme(name: str, propagate: bool, x: float, y: float) -> float:
    """The larger or smaller of two; +0 is above -0."""
    if math.isnan(x) or math.isnan(y):
        other = y if math.isnan(x) else x
        return math.nan if propagate else other
    best = max if name == "maxf" else min
    return best(x, y, key=lambda number: (number, math.copysign(1, number)))


def accumulated(numbers: Sequence[Any], combine: Callable[[Any, Any], Any]) -> list[Any]:
    return list(itertools.accumulate(numbers, combine))


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["maxf", "minf"])
@pytest.mark.parametrize("propagate", [False, True])
@pytest.mark.parametrize("length", [4, 32])
def test_extremes_of_floats(name: str, propagate: bool, kind: Scalar, length: int) -> None:
    rng = np.random.default_rng(length)
    rows = [
        rng.choice(some, length)
        for some in ([0.0, -0.0], [-1, 0.0, -0.0, 1], [math.nan, -0.0], [math.inf, 2, -math.inf])
        for _ in range(4)
    ]
    held = np.array([[[math.nan] * length, *rows]]).astype(storage(kind))
    regions = single(name, kind, {"propagate_nan": propagate})
    combine = functools.partial(extreme, name, propagate)
    want = np.array([accumulated(row, combine) for row in held[0].astype(float).tolist()])
    across = reduce(held, kind, 1, regions)[0].astype(float)
    down = reduce(held.transpose(0, 2, 1).copy(), kind, 0, regions)[0].astype(float)
    steps = scan(held, kind, 1, False, regions)[0].astype(float)
    for found, wanted in ((across, want[:, -1]), (down, want[:, -1]), (steps, want)):
        np.testing.assert_array_equal(found, wanted)
        numbers = ~np.isnan(wanted)
        assert (np.signbit(found)[numbers] == np.signbit(wanted)[numbers]).all()


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
    half = 1 << (kind.bits - 1)

    def wrapped(x: int, y: int) -> int:
        return (combine(x, y) + half) % (2 * half) - half

    rng = np.random.default_rng(kind.bits)
    numbers = rng.integers(-half, half - 1, (3, 8), dtype=np.int64, endpoint=True).tolist()
    held = np.stack([held_integers(row, kind) for row in numbers])[None]
    sign = Signedness.UNSIGNED if name[0] == "u" else Signedness.SIGNED
    attributes: dict[str, Any] = {"signedness": sign, **WRAPPING}
    regions = single({"umax": "maxi", "umin": "mini"}.get(name, name), kind, attributes)
    want = [accumulated(row, wrapped) for row in numbers]
    back = [accumulated(row[::-1], wrapped)[::-1] for row in numbers]
    last = [row[-1] for row in want]
    assert signed(reduce(held, kind, 1, regions), kind) == last
    assert signed(reduce(held.transpose(0, 2, 1).copy(), kind, 0, regions), kind) == last
    assert signed(scan(held, kind, 1, False, regions), kind) == np.concatenate(want).tolist()
    assert signed(scan(held, kind, 1, True, regions), kind) == np.concatenate(back).tolist()


def larger(b: Builder, current: Value, previous: Value) -> Value:
    """Of no form that is known: the larger one, in two steps."""
    bigger = b.compare(current, previous, Predicate.GREATER_THAN)
    operands = {"condition": bigger, "if_true": current, "if_false": previous}
    found: Value = b.op("select", operands, tile(Scalar.I32))
    return found


def later(b: Builder, current: Value, previous: Value) -> Value:
    """Associative, but not commutative."""
    nothing = {"lhs": previous, "rhs": b.constant(0)}
    return b.add(current, b.op("muli", nothing, tile(Scalar.I32), WRAPPING))


@pytest.mark.parametrize(("step", "combine"), [(larger, max), (later, lambda _, now: now)])
def test_a_region_that_is_not_known_runs_on_pairs_in_order(
    step: Callable[[Builder, Value, Value], Value], combine: Callable[[int, int], int]
) -> None:
    def regions(builder: Builder) -> Sequence[Block]:
        def fill(*pair: Value) -> None:
            builder.op("yield", {"values": step(builder, *pair)})

        return [builder.region([tile(Scalar.I32)] * 2, fill)]

    held = np.random.default_rng(0).integers(-99, 99, (3, 4, 7)).astype(np.int32)
    rows = held.reshape(12, 7).tolist()
    want = [accumulated(row, combine) for row in rows]
    back = [accumulated(row[::-1], combine)[::-1] for row in rows]
    last = [row[-1] for row in want]
    down = held.transpose(0, 2, 1).copy()
    assert reduce(held, Scalar.I32, 1, regions).ravel().tolist() == last
    assert reduce(down, Scalar.I32, 0, regions).ravel().tolist() == last
    assert scan(held, Scalar.I32, 1, False, regions).reshape(12, 7).tolist() == want
    assert scan(held, Scalar.I32, 1, True, regions).reshape(12, 7).tolist() == back


def test_several_operands_are_combined_together() -> None:
    """The place of the largest element, the first one of equals."""
    element, place = tile(Scalar.F32), tile(Scalar.I32)

    def regions(builder: Builder) -> Sequence[Block]:
        def fill(value: Value, best: Value, at: Value, best_at: Value) -> None:
            greater = {"predicate": Predicate.GREATER_THAN, "ordering": Ordering.ORDERED}
            better = builder.op("cmpf", {"lhs": value, "rhs": best}, tile(Scalar.I1), greater)
            chosen = [
                builder.op("select", {"condition": better, "if_true": new, "if_false": old}, kind)
                for new, old, kind in ((value, best, element), (at, best_at, place))
            ]
            builder.op("yield", {"values": chosen})

        return [builder.region([element] * 2 + [place] * 2, fill)]

    held = np.random.default_rng(1).integers(0, 6, (3, 4, 16)).astype(np.float32)
    places = np.broadcast_to(np.arange(16, dtype=np.int32), (1, 4, 16))
    whole = [tile(Scalar.F32, 4, 16), tile(Scalar.I32, 4, 16)]
    operands = {"operands": list(zip(whole, (held, places), strict=True))}
    attributes = {"dim": 1, "identities": (), "reverse": False}
    results = [tile(Scalar.F32, 4), tile(Scalar.I32, 4)]
    values, found = run_op("reduce", operands, results, attributes, regions)
    assert values.tolist() == held.max(axis=2).tolist()
    assert found.tolist() == held.argmax(axis=2).tolist()
    values, found = run_op("scan", operands, whole, attributes, regions)
    assert values.tolist() == np.maximum.accumulate(held, axis=2).tolist()
    assert (np.take_along_axis(held, found.astype(np.int64), axis=2) == values).all()


def test_a_promise_inside_a_reduction_is_watched() -> None:
    watcher = Watcher()
    held = np.array([[100, 100, 1, 1], [1, 2, 3, 4]], np.int8)
    regions = single("addi", Scalar.I8, {"overflow": Overflow.NSW})
    assert reduce(held, Scalar.I8, 0, regions, observer=watcher).tolist() == [-54, 10]
    assert [*itertools.chain(*watcher.wrapped)] == [0]
