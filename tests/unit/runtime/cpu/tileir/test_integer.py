"""Integer arithmetic against Python's integers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from tests.unit.runtime.cpu.tileir.build import run_op, tile
from tests.unit.runtime.cpu.tileir.samples import held_integers, integers, signed
from tests.unit.runtime.cpu.tileir.watching import Watcher
from tilec_runtime.cpu.tileir.ir import Overflow, Predicate, Rounding, Scalar, Signedness
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
    whole = {
        Rounding.ZERO: math.trunc,
        Rounding.NEGATIVE_INF: math.floor,
        Rounding.POSITIVE_INF: math.ceil,
    }[rounding]
    for got, a, b in zip(found, x, y, strict=True):
        p, q = read(a, kind, sign), read(b, kind, sign)
        assert got == (wrap(whole(Fraction(p, q)), kind) if q else 0), (a, b)


@kinds
def test_products_and_shifts(kind: Scalar) -> None:
    """The upper half of a product is unsigned; shifts count unsigned, and shift everything out."""
    x, y = pairs(kind)
    mask = (1 << kind.bits) - 1
    unsigned = {"signedness": Signedness.UNSIGNED}
    exact: list[tuple[str, dict[str, Any], Callable[[int, int], int]]] = [
        ("mulhii", {}, lambda a, b: (a & mask) * (b & mask) >> kind.bits),
        ("shli", {}, lambda a, b: a << min(b & mask, 70)),
        ("shri", unsigned, lambda a, b: (a & mask) >> min(b & mask, 70)),
        ("shri", {"signedness": Signedness.SIGNED}, lambda a, b: a >> min(b & mask, 70)),
    ]
    for name, attributes, compute in exact:
        wanted = [wrap(compute(a, b), kind) for a, b in zip(x, y, strict=True)]
        assert signed(run(name, kind, [x, y], **attributes), kind) == wanted


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


def broken(
    name: str,
    kind: Scalar,
    columns: list[list[int]],
    result: Scalar | None = None,
    **attributes: object,
) -> list[int]:
    """Runs each tuple of numbers in a block of its own; the blocks that wrap."""
    watcher = Watcher()
    names = ("source",) if len(columns) == 1 else ("lhs", "rhs")
    operands = {
        key: (tile(kind), held_integers(column, kind))
        for key, column in zip(names, columns, strict=True)
    }
    run_op(name, operands, tile(result or kind), attributes, observer=watcher)
    assert len(watcher.wrapped) <= 1
    assert not watcher.names, "integers are not told of"
    return watcher.wrapped[0] if watcher.wrapped else []


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
    wanted = []
    for block, (a, b) in enumerate(zip(x, y, strict=True)):
        for sign, promises in (
            (Signedness.SIGNED, (Overflow.NSW, Overflow.NW)),
            (Signedness.UNSIGNED, (Overflow.NUW, Overflow.NW)),
        ):
            right = b % (1 << kind.bits) if name == "shli" else read(b, kind, sign)
            if promise in promises and wraps(exact(read(a, kind, sign), right), kind, sign):
                wanted.append(block)
    assert broken(name, kind, [x, y], overflow=promise) == sorted(set(wanted))


def test_negations_and_truncations_keep_promises_too() -> None:
    assert broken("negi", Scalar.I8, [[-128, -127, 0, 5]], overflow=Overflow.NSW) == [0]
    numbers = [[-129, -128, -1, 0, 127, 128, 255, 256]]
    narrow = {Overflow.NSW: [0, 5, 6, 7], Overflow.NUW: [0, 1, 2, 7]}
    for promise, wrapped in narrow.items():
        assert broken("trunci", Scalar.I32, numbers, Scalar.I8, overflow=promise) == wrapped
