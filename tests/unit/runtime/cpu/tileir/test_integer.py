"""Integer arithmetic against Python's integers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir.build import run_op, tile
from tests.unit.runtime.cpu.tileir.samples import held_integers, integers, signed
from tilec_runtime.cpu.tileir.frame import Frame
from tilec_runtime.cpu.tileir.ir import Op, Overflow, Predicate, Rounding, Scalar, Signedness
from tilec_runtime.cpu.tileir.values import Array, storage

KINDS = [Scalar.I1, Scalar.I4, Scalar.I8, Scalar.I16, Scalar.I32, Scalar.I64]
SIGNS = [Signedness.SIGNED, Signedness.UNSIGNED]
kinds = pytest.mark.parametrize("kind", KINDS, ids=str)
signs = pytest.mark.parametrize("sign", SIGNS, ids=lambda item: item.name.lower())


def pairs(kind: Scalar) -> tuple[list[int], list[int]]:
    some = integers(kind)
    first, second = zip(*itertools.product(some, some), strict=True)
    return list(first), list(second)


def run(
    name: str,
    kind: Scalar,
    columns: list[list[int]],
    result: Scalar | None = None,
    **attributes: object,
) -> Array:
    names = ("source",) if len(columns) == 1 else ("lhs", "rhs")
    shape = (len(columns[0]),)
    operands = {
        key: (tile(kind, *shape), held_integers(column, kind)[None])
        for key, column in zip(names, columns, strict=True)
    }
    (found,) = run_op(name, operands, tile(result or kind, *shape), attributes)
    assert found.dtype == storage(result or kind)
    return found[0]


def wrap(number: int, kind: Scalar) -> int:
    half = 1 << (kind.bits - 1)
    return (number + half) % (2 * half) - half


def read(number: int, kind: Scalar, sign: Signedness) -> int:
    return number if sign is Signedness.SIGNED else number % (1 << kind.bits)


def truncated(x: int, y: int) -> int:
    return (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)


PLAIN: dict[str, Callable[[int, int], int]] = {
    "addi": lambda x, y: x + y,
    "subi": lambda x, y: x - y,
    "muli": lambda x, y: x * y,
    "andi": lambda x, y: x & y,
    "ori": lambda x, y: x | y,
    "xori": lambda x, y: x ^ y,
}


@kinds
@signs
@pytest.mark.parametrize(
    "rounding",
    [Rounding.ZERO, Rounding.NEGATIVE_INF, Rounding.POSITIVE_INF],
    ids=lambda item: item.name.lower(),
)
def test_quotients_round_as_told(rounding: Rounding, sign: Signedness, kind: Scalar) -> None:
    x, y = pairs(kind)
    found = signed(run("divi", kind, [x, y], signedness=sign, rounding=rounding), kind)
    for got, a, b in zip(found, x, y, strict=True):
        p, q = read(a, kind, sign), read(b, kind, sign)
        if q == 0:
            want = 0
        elif rounding is Rounding.ZERO:
            want = truncated(p, q)
        else:
            want = p // q if rounding is Rounding.NEGATIVE_INF else -(-p // q)
        assert got == wrap(want, kind), (a, b)


@kinds
def test_the_upper_half_of_a_product_is_unsigned(kind: Scalar) -> None:
    x, y = pairs(kind)
    mask = (1 << kind.bits) - 1
    want = [wrap((a & mask) * (b & mask) >> kind.bits, kind) for a, b in zip(x, y, strict=True)]
    assert signed(run("mulhii", kind, [x, y]), kind) == want


@kinds
def test_shifts_count_unsigned_and_shift_everything_out(kind: Scalar) -> None:
    x, y = pairs(kind)
    mask = (1 << kind.bits) - 1
    left = signed(run("shli", kind, [x, y]), kind)
    logical = signed(run("shri", kind, [x, y], signedness=Signedness.UNSIGNED), kind)
    arithmetic = signed(run("shri", kind, [x, y], signedness=Signedness.SIGNED), kind)
    for place, (a, b) in enumerate(zip(x, y, strict=True)):
        number = min(b & mask, 70)
        assert left[place] == wrap(a << number, kind), (a, b)
        assert logical[place] == wrap((a & mask) >> number, kind), (a, b)
        assert arithmetic[place] == a >> number, (a, b)


@kinds
@signs
@pytest.mark.parametrize("predicate", list(Predicate), ids=lambda item: item.name.lower())
def test_comparisons(predicate: Predicate, sign: Signedness, kind: Scalar) -> None:
    compare = {
        Predicate.EQUAL: int.__eq__,
        Predicate.NOT_EQUAL: int.__ne__,
        Predicate.LESS_THAN: int.__lt__,
        Predicate.LESS_THAN_OR_EQUAL: int.__le__,
        Predicate.GREATER_THAN: int.__gt__,
        Predicate.GREATER_THAN_OR_EQUAL: int.__ge__,
    }[predicate]
    x, y = pairs(kind)
    found = run("cmpi", kind, [x, y], Scalar.I1, predicate=predicate, signedness=sign)
    assert found.tolist() == [
        compare(read(a, kind, sign), read(b, kind, sign)) for a, b in zip(x, y, strict=True)
    ]


class Watcher:
    """Notes which blocks broke a promise."""

    def __init__(self) -> None:
        self.seen: list[Array] = []

    def overflowed(self, op: Op, frame: Frame, wrapped: Array) -> None:
        assert wrapped.shape == (frame.size,)
        self.seen.append(wrapped)

    def computed(self, op: Op, frame: Frame) -> None:
        raise AssertionError("integers are not told of")


def broken(
    name: str,
    kind: Scalar,
    columns: list[list[int]],
    result: Scalar | None = None,
    **attributes: object,
) -> list[bool]:
    """Runs each tuple of numbers in a block of its own."""
    watcher: Any = Watcher()
    names = ("source",) if len(columns) == 1 else ("lhs", "rhs")
    operands = {
        key: (tile(kind), held_integers(column, kind))
        for key, column in zip(names, columns, strict=True)
    }
    run_op(name, operands, tile(result or kind), attributes, observer=watcher)
    assert len(watcher.seen) <= 1
    return list(watcher.seen[0]) if watcher.seen else [False] * len(columns[0])


def wraps(exact: int, kind: Scalar, sign: Signedness) -> bool:
    low = -(1 << (kind.bits - 1)) if sign is Signedness.SIGNED else 0
    return not low <= exact < low + (1 << kind.bits)


@kinds
@pytest.mark.parametrize("promise", list(Overflow), ids=lambda item: item.name.lower())
@pytest.mark.parametrize("name", ["addi", "subi", "muli", "shli"])
def test_a_broken_promise_is_reported_for_its_block(
    name: str, promise: Overflow, kind: Scalar
) -> None:
    x, y = pairs(kind)
    exact = {**PLAIN, "shli": lambda a, b: a << min(b, 80)}[name]
    found = broken(name, kind, [x, y], overflow=promise)
    for got, a, b in zip(found, x, y, strict=True):
        want = False
        for sign, promises in (
            (Signedness.SIGNED, (Overflow.NSW, Overflow.NW)),
            (Signedness.UNSIGNED, (Overflow.NUW, Overflow.NW)),
        ):
            right = b % (1 << kind.bits) if name == "shli" else read(b, kind, sign)
            want |= promise in promises and wraps(exact(read(a, kind, sign), right), kind, sign)
        assert got == want, (a, b)


def test_negations_and_truncations_keep_promises_too() -> None:
    assert broken("negi", Scalar.I8, [[-128, -127, 0, 5]], overflow=Overflow.NSW) == [
        True,
        False,
        False,
        False,
    ]
    numbers = [-129, -128, -1, 0, 127, 128, 255, 256]
    assert broken("trunci", Scalar.I32, [numbers], Scalar.I8, overflow=Overflow.NSW) == [
        True,
        False,
        False,
        False,
        False,
        True,
        True,
        True,
    ]
    assert broken("trunci", Scalar.I32, [numbers], Scalar.I8, overflow=Overflow.NUW) == [
        True,
        True,
        True,
        False,
        False,
        False,
        False,
        True,
    ]


def test_reports_a_shared_wrap_for_every_block() -> None:
    watcher: Any = Watcher()
    one = np.array([127], np.int8)
    run_op(
        "addi",
        {"lhs": (tile(Scalar.I8), one), "rhs": (tile(Scalar.I8), one)},
        tile(Scalar.I8),
        {"overflow": Overflow.NSW},
        observer=watcher,
        blocks=3,
    )
    assert [list(seen) for seen in watcher.seen] == [[True, True, True]]
