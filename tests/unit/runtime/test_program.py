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
from tilec_runtime.launch.lowering import TensorTerms, lowered
from tilec_runtime.launch.program import (
    LoweringError,
    Step,
    Term,
    Writer,
    code,
    fits,
    packed,
    product,
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
        (op.CDIV, {(7, 2): 4, (-7, 2): -3, (8, 2): 4, (1, 0): None}),
        (op.ADD, {(MOST, 0): MOST, (MOST, 1): None, (-MOST, -1): None}),
        (op.SUB, {(-MOST, 1): None, (5, 7): -2}),
        (op.MUL, {(2**32, 2**31): None, (2**32, -(2**31)): None, (3, -4): -12}),
        (op.MIN, {(3, -4): -4}),
        (op.MAX, {(3, -4): 3}),
        (op.BOTH, {(2, 4): 1, (0, 4): 0, (4, 0): 0}),
        (op.EITHER, {(2, 0): 1, (0, 4): 1, (0, 0): 0}),
        (op.AND, {(2, 4): 4, (0, 4): 0, (4, 0): 0}),
        (op.OR, {(2, 4): 2, (0, 4): 4, (0, 0): 0}),
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


def test_what_is_known_is_folded_and_what_is_checked_twice_is_checked_once() -> None:
    slot: Term = ((op.SLOT, 0),)
    assert product([2, 3, 4]) == 24
    assert product([1, slot]) == slot
    assert op.all_of([1, slot, 1]) == slot
    assert op.all_of([slot, 0]) == 0
    assert op.any_of([slot, 1]) == 1
    write = Writer()
    for _ in range(2):
        write.check(slot)
        write.check(op.divides(16, slot))
        write.check(op.divides(8, slot))  # follows
    assert write.steps == [(op.SLOT, 0), (op.CHECK, 0), (op.SLOT, 0), (op.DIVISIBLE, 16)]
    with pytest.raises(LoweringError):
        write.check(0)
    with pytest.raises(LoweringError):
        code(2**63)


def test_programs_as_bytes() -> None:
    steps = ((op.SLOT, 3), (op.CONST, -1), (op.CONST, 2), (op.ADD, 0), (op.MUL, 0), (op.OUT, 0))
    assert struct.unpack("<12q", packed(steps)) == (2, 3, 1, -1, 1, 2, 3, 0, 5, 0, 21, 0)


def environments(
    pick: random.Random, rank: int
) -> tuple[dict[str, Any], dict[str, Any], list[int]]:
    """Values as expressions read them, the same as terms of programs, and slots."""
    env: dict[str, Any] = {"BM": 64}
    terms: dict[str, Any] = {"BM": 64}
    slots: list[int] = []

    def slot(number: int) -> Term:
        slots.append(number)
        return ((op.SLOT, len(slots) - 1),)

    for name in "zxw":
        shape = tuple(pick.choice((0, 1, 2, 3, 16, 64, 1000, 2**31, 2**40)) for _ in range(rank))
        facts = TensorFacts(
            ptr=pick.choice((0, 64, 100)),
            shape=shape,
            stride=contiguous_stride(shape),
            dtype="f32",
            device=0,
        )
        env[name] = facts
        parts = [slot(each) for each in shape]
        terms[name] = TensorTerms(
            ptr=(at := slot(facts.ptr)),
            start=at,
            end=at,
            shape=parts,
            stride=[slot(each) for each in facts.stride],
            size=product(parts),
            dtype="f32",
            contiguous=True,
        )
    env["n"], env["on"], env["alpha"] = (
        pick.choice((-3, 0, 1, 16, 2**40)),
        pick.random() < 0.5,
        pick.choice((0.5, 2.5, -0.0)),
    )
    terms["n"], terms["on"], terms["alpha"] = slot(env["n"]), slot(env["on"]), env["alpha"]
    return env, terms, slots


def test_expressions_have_the_same_values_in_programs() -> None:
    """Short circuits apart: programs compute both sides, and fail where one has no value."""
    pick = random.Random(11)
    known = computed = 0
    while computed < 1500:
        kernels = Kernels(pick)
        kernels.one("k")
        text = kernels.condition() if pick.random() < 0.5 else kernels.number()
        try:
            expression = parse(text)
        except ExpressionError:  # too many parts
            continue
        for _ in range(5):
            env, terms, slots = environments(pick, kernels.params[0].rank)
            try:
                term = lowered(expression, terms)
                assert isinstance(term, int | tuple), text
                found = value(*code(term), slots=tuple(slots))
            except LoweringError:
                found = None
            if found is None:
                known += 1
                continue
            assert expression.evaluate(env) == found, f"{text} {env}"
            computed += 1
    assert known < computed
