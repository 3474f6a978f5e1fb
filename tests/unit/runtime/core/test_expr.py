"""Programs of plans in C: equal to Python's evaluation, within bounds, and never outside of their
memory.
"""

from __future__ import annotations

import random
import struct

import pytest

from tests.unit.runtime.core.samples import core
from tilec_runtime.launch import program as py

EDGES = (
    0,
    1,
    -1,
    2,
    3,
    -3,
    7,
    16,
    127,
    128,
    255,
    256,
    2**31 - 1,
    2**31,
    -(2**31),
    2**32,
    2**62,
    2**63 - 1,
    -(2**63) + 1,
)
BINARY = (*range(py.ADD, py.NEG), *range(py.EQ, py.NOT), py.BOTH, py.EITHER)
UNARY = (py.NEG, py.NOT, py.POW2)


def bytes_of(steps: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack("<qq", *step) for step in steps)


def number(source: random.Random) -> int:
    return source.choice(EDGES) if source.random() < 0.7 else source.randrange(-1000, 1000)


def term(source: random.Random, depth: int, written: int) -> list[tuple[int, int]]:
    """A random expression."""
    kind = source.randrange(8 if depth else 2)
    match kind:
        case 0:
            return [(py.CONST, number(source))]
        case 1 if written and source.random() < 0.3:
            return [(py.GET, source.randrange(written))]
        case 1:
            return [(py.SLOT, source.randrange(8))]
        case 2:
            return [*term(source, depth - 1, written), (source.choice(UNARY), 0)]
        case 3:
            bits = source.choice((1, 8, 16, 31, 32, 63, 64))
            return [*term(source, depth - 1, written), (py.FITS, source.choice((bits, -bits)))]
        case _:
            return [
                *term(source, depth - 1, written),
                *term(source, depth - 1, written),
                (source.choice(BINARY), 0),
            ]


def program(source: random.Random) -> list[tuple[int, int]]:
    steps = []
    for output in range(source.randrange(1, 5)):
        if source.random() < 0.3:
            steps += [
                *term(source, 2, output),
                source.choice(
                    [(py.CHECK, 0), (py.DIVISIBLE, source.choice((1, 2, 3, 16, 48, 2**31, 2**62)))]
                ),
            ]
        steps += [*term(source, source.randrange(5), output), (py.OUT, output)]
    return steps


def test_programs_give_what_python_gives():
    source = random.Random(8)
    applied = 0
    for _ in range(4000):
        steps, slots = program(source), [number(source) for _ in range(8)]
        outputs = 1 + max(operand for op, operand in steps if op == py.OUT)
        expected = py.run(steps, slots, outputs)
        found = core.run(bytes_of(steps), slots)
        assert found == (None if expected is None else tuple(expected)), (steps, slots)
        applied += expected is not None
    assert 1000 < applied < 3500, "both ends are met"


@pytest.mark.parametrize("op", BINARY)
def test_every_operation_at_the_edges(op):
    steps = [(py.SLOT, 0), (py.SLOT, 1), (op, 0), (py.OUT, 0)]
    for a in EDGES:
        for b in EDGES:
            expected = py.run(steps, (a, b), 1)
            assert core.run(bytes_of(steps), (a, b)) == (
                None if expected is None else tuple(expected)
            ), (op, a, b)


def test_outputs_may_be_written_again():
    total = [(py.SLOT, 0), (py.SLOT, 1), (py.ADD, 0), (py.OUT, 0)]
    again = [*total, (py.GET, 0), (py.OUT, 1), (py.GET, 0), (py.CONST, 1), (py.ADD, 0), (py.OUT, 0)]
    assert core.run(bytes_of(again), (3, 4)) == (8, 7)
    assert core.run(bytes_of([*again, (py.CONST, 5), (py.OUT, 0)]), (3, 4)) == (5, 7)
    with pytest.raises(ValueError, match=r"step 6 .* malformed"):  # while it is still to be read
        core.run(bytes_of([*total, (py.GET, 0), (py.CONST, 5), (py.OUT, 0), (py.OUT, 1)]), (3, 4))
    assert core.run(bytes_of([(py.SLOT, 0), (py.OUT, 2)]), (3,)) == (0, 0, 3)


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([(py.ADD, 0)], "step 0 .* malformed"),
        ([(py.CONST, 1)], "leaves values"),
        ([(py.CONST, 1), (22, 0)], "step 1 .*op 22"),
        ([(0, 0)], "malformed"),
        ([(2**40, 0)], "malformed"),
        ([(py.SLOT, -1), (py.CHECK, 0)], "malformed"),
        ([(py.SLOT, 1 << 20), (py.CHECK, 0)], "malformed"),
        ([(py.CONST, 1), (py.OUT, -1)], "malformed"),
        ([(py.CONST, 1), (py.OUT, 1 << 20)], "malformed"),
        ([(py.GET, 0), (py.CHECK, 0)], "malformed"),
        ([(py.CONST, 1), (py.DIVISIBLE, 0)], "malformed"),
        ([(py.CONST, 1), (py.FITS, 65), (py.CHECK, 0)], "malformed"),
        ([*[(py.CONST, 1)] * 65, *[(py.ADD, 0)] * 64, (py.CHECK, 0)], "step 64 .* malformed"),
        ([(py.SLOT, 2), (py.CHECK, 0)], "reads more slots than there are"),
    ],
)
def test_malformed_programs_are_refused(steps, why):
    with pytest.raises(ValueError, match=why):
        core.run(bytes_of(steps), (1, 1))


def test_programs_are_bytes_of_whole_steps():
    for data in (b"123", bytes(8), [1, 2]):
        with pytest.raises(ValueError, match="a program is bytes"):
            core.run(data, ())
    assert core.run(b"", ()) == ()
    assert core.run(bytes_of([*[(py.CONST, 1)] * 64, *[(py.ADD, 0)] * 63, (py.OUT, 0)]), ()) == (
        64,
    )
