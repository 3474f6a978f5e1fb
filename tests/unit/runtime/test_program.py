"""Programs apply where what was decided while they were traced is decided again."""

from __future__ import annotations

from typing import Any

import pytest

from tilec_runtime.launch.program import (
    SHAPE_OUTPUTS,
    Trace,
    all_hold,
    at_most,
    run,
)


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
