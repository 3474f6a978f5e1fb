"""Programs compute what expressions evaluate to, and fail where they have no value of 64 bits."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.plan_samples import Kernels
from tilec_runtime.device.layout import TensorFacts, contiguous_stride
from tilec_runtime.errors import ExpressionError
from tilec_runtime.launch.program import (
    SHAPE_OUTPUTS,
    Trace,
    all_hold,
    at_most,
    concrete,
    run,
)
from tilec_runtime.model.expr import parse


def traced(*numbers: int) -> tuple[Trace, list[Any]]:
    trace = Trace()
    return trace, [trace.slot(place, number) for place, number in enumerate(numbers)]


def applies(trace: Trace, *slots: int) -> bool:
    return run(trace.steps, slots, SHAPE_OUTPUTS) is not None


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
