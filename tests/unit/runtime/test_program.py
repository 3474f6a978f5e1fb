"""Programs compute what expressions evaluate to, and fail where they have no value of 64 bits."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from tests.plan_samples import Kernels
from tilec_runtime.device.layout import TensorFacts, contiguous_stride
from tilec_runtime.errors import ExpressionError
from tilec_runtime.launch import program as op
from tilec_runtime.launch.program import (
    SHAPE_OUTPUTS,
    Step,
    Trace,
    all_hold,
    at_most,
    concrete,
    fits,
    packed,
    run,
)
from tilec_runtime.model.expr import parse

MOST = 2**63 - 1


def value(*steps: Step, slots: tuple[int, ...] = ()) -> int | None:
    found = run((*steps, (op.OUT, 0)), slots, 1)
    return None if found is None else found[0]


@pytest.mark.parametrize(
    ("operation", "cases"),
    [
        (op.FLOORDIV, {(7, 2): 3, (-7, 2): -4, (7, -2): -4, (1, 0): None}),
        (op.MOD, {(7, 3): 1, (-7, 3): 2, (7, -3): -2, (1, 0): None}),
        (op.ADD, {(MOST, 0): MOST, (MOST, 1): None, (-MOST, -1): None}),
        (op.SUB, {(-MOST, 1): None, (5, 7): -2}),
        (op.MUL, {(2**32, 2**31): None, (2**32, -(2**31)): None, (3, -4): -12}),
        (op.BOTH, {(2, 4): 1, (0, 4): 0, (4, 0): 0}),
        (op.EITHER, {(2, 0): 1, (0, 4): 1, (0, 0): 0}),
        (op.LE, {(2, 2): 1, (3, 2): 0}),
        (op.GT, {(2, 2): 0, (3, 2): 1}),
    ],
)
def test_operations_on_two_numbers(
    operation: int, cases: dict[tuple[int, int], int | None]
) -> None:
    for (left, right), expected in cases.items():
        assert value((op.CONST, left), (op.CONST, right), (operation, 0)) == expected


def test_operations_on_one_number() -> None:
    assert [
        value((op.CONST, each), (op.POW2, 0)) for each in (-1, 0, 1, 2, 3, 2**62, 2**62 + 1)
    ] == [None, 1, 1, 2, 4, 2**62, None]
    assert [value((op.CONST, each), (op.NOT, 0)) for each in (-1, 0, 1)] == [0, 1, 0]
    assert value((op.SLOT, 1), (op.NEG, 0), slots=(3, 5)) == -5


def test_checks_end_a_program() -> None:
    done = ((op.CONST, 9), (op.OUT, 0))
    assert run((*done, (op.CONST, 1), (op.CHECK, 0)), (), 1) == [9]
    assert run((*done, (op.CONST, 0), (op.CHECK, 0)), (), 1) is None
    assert run(((op.SLOT, 0), (op.DIVISIBLE, 16), *done), (32,), 1) == [9]
    assert run(((op.SLOT, 0), (op.DIVISIBLE, 16), *done), (40,), 1) is None
    for bits, good, bad in (
        (32, 2**31 - 1, 2**31),
        (32, -(2**31), -(2**31) - 1),
        (-8, 255, 256),
        (-32, 0, -1),
    ):
        assert fits(good, bits)
        assert not fits(bad, bits)
        assert value((op.CONST, good), (op.FITS, bits)) == good
        assert value((op.CONST, bad), (op.FITS, bits)) is None


def traced(*numbers: int) -> tuple[Trace, list[Any]]:
    trace = Trace()
    return trace, [trace.slot(place, number) for place, number in enumerate(numbers)]


def applies(trace: Trace, *slots: int) -> bool:
    return run(trace.steps, slots, SHAPE_OUTPUTS) is not None


def test_a_guard_is_written_once_and_neutral_operations_not_at_all() -> None:
    trace, (n,) = traced(64)
    assert (n * 1, n + 0, 0 + n, n // 1, n % 1) == (n, n, n, n, 0)
    trace, (n,) = traced(64)
    for _ in range(2):
        assert n > 3
        assert not n % 16
        assert n % 8 == 0  # follows
    assert trace.steps == (
        *((op.SLOT, 0), (op.CONST, 3), (op.GT, 0), (op.CHECK, 0)),
        *((op.SLOT, 0), (op.DIVISIBLE, 16)),
    )


@pytest.mark.parametrize(
    ("decide", "same", "others"),
    [
        (lambda n: n < 10, (0, 9), (10, 11)),
        (lambda n: n >= 10, (0, 9), (10, 11)),
        (lambda n: n != 7, (7,), (6, 8)),
        (lambda n: not n, (1, 7), (0,)),
        (lambda n: n in (1, 2, 7), (7,), (1, 2, 3)),
        (lambda n: n % 4 == 3, (3, 7), (4, 6)),
        (lambda n: -n < -5, (6, 7), (5,)),
        (lambda n: (n < 8) & (n > 2), (3, 7), (2, 8)),
        (lambda n: (n < 5) | (n > 6), (4, 7), (5, 6)),
        (lambda n: max(n, 9), (7, 8), (10,)),
        (lambda n: 100 // n, (1, 7), (0,)),
        (lambda n: list(range(n)), (7,), (6, 8)),
        (lambda n: n * 0.5 < 4, (7,), (6, 8)),
        (lambda n: n * 2**62, (7,), (1, 6)),
        (lambda n: all_hold([n < 9, n > 3]), (4, 8), (3, 9)),
        (lambda n: all_hold([n < 9, n > 8]), (1, 7, 10), ()),
        (lambda n: at_most(n), (1, 7), (8,)),
    ],
)
def test_a_program_applies_where_the_decision_is_the_same(
    decide: Any, same: tuple[int, ...], others: tuple[int, ...]
) -> None:
    trace, (n,) = traced(7)
    bool(decide(n))
    assert all(applies(trace, number) for number in same)
    assert not any(applies(trace, number) for number in others)


def test_programs_as_bytes() -> None:
    steps = ((op.SLOT, 3), (op.CONST, -1), (op.CONST, 2), (op.ADD, 0), (op.MUL, 0), (op.OUT, 0))
    assert struct.unpack("<12q", packed(steps)) == (2, 3, 1, -1, 1, 2, 3, 0, 5, 0, 19, 0)


def environments(pick: random.Random, rank: int) -> tuple[dict[str, Any], list[int], Trace]:
    """Values as expressions read them, traced, and their slots."""
    trace, slots = Trace(), list[int]()

    def slot(number: int) -> int:
        slots.append(number)
        return trace.slot(len(slots) - 1, number)

    env: dict[str, Any] = {"BM": 64, "alpha": pick.choice((0.5, 2.5, -0.0))}
    for name in "zxw":
        shape = tuple(pick.choice((0, 1, 2, 3, 16, 64, 1000, 2**31, 2**40)) for _ in range(rank))
        env[name] = TensorFacts(
            ptr=slot(pick.choice((0, 64, 100))),
            shape=tuple(map(slot, shape)),
            stride=tuple(map(slot, contiguous_stride(shape))),
            dtype="f32",
            device=0,
        )
    env["n"], env["on"] = slot(pick.choice((-3, 0, 1, 16, 2**40))), slot(pick.random() < 0.5)
    return env, slots, trace


def plain(env: dict[str, Any]) -> dict[str, Any]:
    found = {name: concrete(value) for name, value in env.items() if name not in "zxw"}
    for name in "zxw":
        facts = env[name]
        found[name] = TensorFacts(
            ptr=concrete(facts.ptr),
            shape=tuple(map(concrete, facts.shape)),
            stride=tuple(map(concrete, facts.stride)),
            dtype="f32",
            device=0,
        )
    return found


def test_expressions_have_the_same_values_in_programs() -> None:
    """A program that applies to other numbers gives what the expression gives for these."""
    pick = random.Random(11)
    computed = reused = 0
    while computed < 1500:
        kernels = Kernels(pick)
        kernels.one("k")
        text = kernels.condition() if pick.random() < 0.5 else kernels.number()
        try:
            expression = parse(text)
        except ExpressionError:  # too many parts
            continue
        rank = kernels.params[0].rank
        for _ in range(5):
            env, slots, trace = environments(pick, rank)
            try:
                value = expression.evaluate(env)
            except ExpressionError:
                continue
            if not isinstance(value, float):
                trace.output(0, value)
            assert concrete(value) == expression.evaluate(plain(env)), f"{text} {env}"
            computed += 1
            other, slots, _ = environments(pick, rank)
            other["alpha"] = env["alpha"]
            found = run(trace.steps, slots, 1)
            if found is not None and not isinstance(value, float):
                assert found[0] == expression.evaluate(plain(other)), f"{text} {other}"
                reused += 1
    assert reused > computed // 20
