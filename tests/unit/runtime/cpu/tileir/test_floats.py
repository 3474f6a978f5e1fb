"""Floating point arithmetic against fractions, in every rounding mode."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir.build import run_op, tile
from tests.unit.runtime.cpu.tileir.reference import decode, encode, operate
from tests.unit.runtime.cpu.tileir.samples import bits_of, floats, patterns
from tilec_runtime.cpu.tileir.ir import Ordering, Predicate, Rounding, Scalar
from tilec_runtime.cpu.tileir.values import Array, storage

MODES = [Rounding.NEAREST_EVEN, Rounding.ZERO, Rounding.NEGATIVE_INF, Rounding.POSITIVE_INF]
KINDS = [Scalar.F16, Scalar.BF16, Scalar.F32, Scalar.F64]
NAMES = {"sqrt": ("source",), "fma": ("lhs", "rhs", "acc")}


def run(
    name: str,
    kind: Scalar,
    columns: list[tuple[int, ...]],
    result: Scalar | None = None,
    **attributes: object,
) -> Array:
    """One operation on columns of bits, as a tile of one block."""
    shape = (len(columns[0]),)
    operands = {
        key: (tile(kind, *shape), floats(bits, kind)[None])
        for key, bits in zip(NAMES.get(name, ("lhs", "rhs")), columns, strict=True)
    }
    (found,) = run_op(name, operands, tile(result or kind, *shape), attributes)
    return found[0]


def check(name: str, kind: Scalar, rounding: Rounding, columns: list[tuple[int, ...]]) -> None:
    found = bits_of(run(name, kind, columns, rounding=rounding, flush_to_zero=False), kind)
    for got, *operands in zip(found, *columns, strict=True):
        want = encode(
            operate(name, [decode(bits, kind) for bits in operands], rounding), kind, rounding
        )
        place = f"{name} {rounding.name} of {[hex(bits) for bits in operands]}: {got:#x}, not {want if want is None else hex(want)}"
        assert decode(got, kind).nan if want is None else got == want, place


@pytest.mark.parametrize("rounding", MODES, ids=lambda mode: mode.name.lower())
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize(
    ("name", "operands"),
    [("addf", 2), ("subf", 2), ("mulf", 2), ("divf", 2), ("sqrt", 1), ("fma", 3)],
)
def test_operations_round_once(name: str, operands: int, kind: Scalar, rounding: Rounding) -> None:
    rng = np.random.default_rng(MODES.index(rounding))
    some = np.array(patterns(kind, 40 if operands == 1 else 6), np.uint64)
    if operands == 2:
        columns = rng.permutation(list(itertools.product(some, repeat=2)))[:700].T
    else:
        columns = rng.choice(some, (operands, 600))
    check(name, kind, rounding, [tuple(int(bits) for bits in column) for column in columns])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_fused_operation_keeps_what_lies_behind_a_tie(kind: Scalar) -> None:
    # The product of two odd numbers may end in a tie; a tiny third number decides it.
    digits = {Scalar.F16: 10, Scalar.BF16: 7, Scalar.F32: 23, Scalar.F64: 52}[kind]
    held = storage(kind)
    odd = (1 + 2.0**-digits * np.arange(1, 40, 2)).astype(held)
    tiny = np.full(len(odd), 2.0**-24 if kind is Scalar.F16 else 2.0**-120).astype(held)
    for z in (tiny, -tiny, odd, -odd):
        columns = [tuple(bits_of(held, kind)) for held in (odd, odd[::-1].copy(), z)]
        for rounding in MODES:
            check("fma", kind, rounding, columns)


@pytest.mark.parametrize(
    ("name", "other", "attributes"),
    [
        ("mulf", 1, {"rounding": Rounding.NEAREST_EVEN}),
        ("addf", 0, {"rounding": Rounding.ZERO}),
        ("divf", 1, {"rounding": Rounding.APPROX}),
        ("maxf", -np.inf, {}),
    ],
)
def test_flushing_replaces_inputs_below_the_normal_range(
    name: str, other: float, attributes: dict[str, Any]
) -> None:
    least, below = 2.0**-126, 2.0**-127
    x = np.array([[below, -below, least, -least, 1.0, np.inf]], np.float32)
    kind = tile(Scalar.F32, 6)
    operands = {"lhs": (kind, x), "rhs": (kind, np.full_like(x, other))}
    (found,) = run_op(name, operands, kind, {**attributes, "flush_to_zero": True})
    assert found[0].tolist() == [0, 0, least, -least, 1, np.inf]
    assert name == "addf" or np.signbit(found[0, :2]).tolist() == [False, True]


def test_flushing_replaces_results_below_the_normal_range() -> None:
    x, kind = np.array([[2.0**-126, -(2.0**-126)]], np.float32), tile(Scalar.F32, 2)
    operands = {"lhs": (kind, x), "rhs": (kind, np.full_like(x, 0.5))}
    (found,) = run_op("mulf", operands, kind, {"rounding": MODES[0], "flush_to_zero": True})
    assert (found[0].tolist(), np.signbit(found[0]).tolist()) == ([0, 0], [False, True])


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("propagate", [False, True])
@pytest.mark.parametrize("name", ["maxf", "minf"])
def test_extremes_order_zeros_and_treat_nan_as_told(
    name: str, propagate: bool, kind: Scalar
) -> None:
    some = patterns(kind)
    pairs = list(itertools.product(some, some))
    first, second = (tuple(column) for column in zip(*pairs, strict=True))
    found = bits_of(
        run(name, kind, [first, second], propagate_nan=propagate, flush_to_zero=False), kind
    )
    for got, a, b in zip(found, first, second, strict=True):
        x, y = decode(a, kind), decode(b, kind)
        if (x.nan and y.nan) or (propagate and (x.nan or y.nan)):
            assert decode(got, kind).nan
        elif x.nan or y.nan:
            assert got == (b if x.nan else a)
        else:
            best = (max if name == "maxf" else min)((a, b), key=lambda bits: _order(bits, kind))
            assert got == best, (hex(a), hex(b), hex(got))


def _order(bits: int, kind: Scalar) -> tuple[float, int]:
    number = decode(bits, kind)
    size = float("inf") if number.infinite else number.size
    return (-size if number.negative else size, 0 if number.negative else 1)  # type: ignore[return-value]


@pytest.mark.parametrize("kind", [*KINDS, Scalar.F8E5M2, Scalar.F8E4M3FN, Scalar.TF32], ids=str)
def test_signs_are_changed_alone(kind: Scalar) -> None:
    some = patterns(kind)
    width = {Scalar.TF32: 19}.get(kind, kind.bits)
    shape = tile(kind, len(some))
    (positive,) = run_op("absf", {"source": (shape, floats(some, kind)[None])}, shape)
    (negated,) = run_op("negf", {"source": (shape, floats(some, kind)[None])}, shape)
    assert bits_of(positive, kind) == [bits & ~(1 << (width - 1)) for bits in some]
    assert bits_of(negated, kind) == [bits ^ (1 << (width - 1)) for bits in some]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_remainders_are_exact_and_have_the_sign_of_the_dividend(kind: Scalar) -> None:
    some = patterns(kind)[:: 2 if kind is Scalar.F64 else 1]
    first, second = (tuple(column) for column in zip(*itertools.product(some, some), strict=True))
    for got, a, b in zip(
        bits_of(run("remf", kind, [first, second]), kind), first, second, strict=True
    ):
        x, y, result = decode(a, kind), decode(b, kind), decode(got, kind)
        if x.nan or y.nan or x.infinite or (y.finite and y.size == 0):
            assert result.nan
        elif y.infinite:
            assert got == a
        else:
            assert (result.size, result.negative) == (x.size % y.size, x.negative)


@pytest.mark.parametrize("kind", [*KINDS, Scalar.F8E4M3FN], ids=str)
@pytest.mark.parametrize("ordering", list(Ordering), ids=lambda item: item.name.lower())
@pytest.mark.parametrize("predicate", list(Predicate), ids=lambda item: item.name.lower())
def test_comparisons(predicate: Predicate, ordering: Ordering, kind: Scalar) -> None:
    some = patterns(kind, 4)
    first, second = (tuple(column) for column in zip(*itertools.product(some, some), strict=True))
    found = run("cmpf", kind, [first, second], Scalar.I1, predicate=predicate, ordering=ordering)
    assert found.dtype == np.bool_
    for got, a, b in zip(found.tolist(), first, second, strict=True):
        x, y = decode(a, kind), decode(b, kind)
        if x.nan or y.nan:
            assert got == (ordering is Ordering.UNORDERED)
            continue
        left, right = (
            (float("-inf") if n.negative else float("inf")) if n.infinite else n.value
            for n in (x, y)
        )
        assert got == COMPARE[predicate](left, right)


COMPARE = {
    Predicate.EQUAL: lambda x, y: x == y,
    Predicate.NOT_EQUAL: lambda x, y: x != y,
    Predicate.LESS_THAN: lambda x, y: x < y,
    Predicate.LESS_THAN_OR_EQUAL: lambda x, y: x <= y,
    Predicate.GREATER_THAN: lambda x, y: x > y,
    Predicate.GREATER_THAN_OR_EQUAL: lambda x, y: x >= y,
}
