"""Which task a worker gets next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tilec.compile.pool import Task, WorkerPool, _Entry, _Seat

# (task's affinity, shared with "!"); (affinity of the other worker, busy with "!"); own affinity;
# the tasks that the worker gets, one after another, "-" for none.
ORDERS = [
    ("x1 y1 z1 x2 y2 z2", "x", "y", "y1 y2 x1", "its own affinity comes first, then any"),
    ("x1 y1 z1 x2", "x!", "", "y1 z1 x1 x2", "an affinity of a busy worker comes last"),
    ("!g1 !h1 !g2", "g", "", "!h1 -", "shared work waits for the idle worker that did it"),
    ("!g1 !g2 p1", "g!", "", "p1 -", "and for the busy one"),
    ("!g1 !g2", "", "", "!g1 !g2", "until that worker is dead"),
]


@pytest.mark.parametrize(("waiting", "other", "own", "expected", "why"), ORDERS)
def test_order_of_tasks(waiting: str, other: str, own: str, expected: str, why: str) -> None:
    unused: Any = None
    pool = WorkerPool(
        size=2, setup=unused, spool=Path(), environ={}, grace=0.0, on_start=lambda _: None
    )

    def entry(name: str) -> _Entry:
        task = Task(request=unused, limit=1.0, affinity=name[:-1].strip("!"), shared="!" in name)
        return _Entry(task, future=name)  # type: ignore[arg-type]

    seat = _Seat(affinity=own)
    pool._seats = [seat, _Seat(affinity=other.strip("!"), busy=other.endswith("!"))]
    pool._waiting = [entry(name) for name in waiting.split()]
    given: list[object] = []
    for _ in expected.split():
        chosen = pool._pick(seat)
        given.append(chosen.future if chosen else "-")
        if chosen:
            pool._waiting.remove(chosen)
            seat.affinity = chosen.task.affinity
    assert given == expected.split(), why
