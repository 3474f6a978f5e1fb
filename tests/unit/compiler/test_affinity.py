"""Which task a worker gets next: its own affinity first, then one that no other worker is at."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from tilec.compiler.crew import Crew, Task


def test_tasks_of_one_affinity_stay_with_the_worker_that_did_one() -> None:
    crew = Crew(size=2, setup=None, spool=Path("unused"), environ={}, grace=0.0)  # type: ignore[arg-type]
    first, second = object(), object()

    def task(name: str, affinity: str) -> Task:
        return Task(request=None, subject=name, limit=1.0, slow="", raise_limit="", affinity=affinity)  # type: ignore[arg-type]

    waiting = deque(task(f"{a}{n}", a) for n in (1, 2) for a in ("x", "y", "z"))
    waiting.append(task("plain", ""))
    crew._last[first], crew._last[second] = "y", "x"
    crew._busy[second] = (waiting[0], 0.0)
    assert [crew._next(first, waiting).subject for _ in range(2)] == ["y1", "y2"]
    crew._last[first] = ""
    assert crew._next(first, waiting).subject == "z1"  # x is with the other worker
    waiting = deque([task("x1", "x"), task("x2", "x")])
    assert crew._next(first, waiting).subject == "x1"  # better than nothing to do
    assert [t.subject for t in waiting] == ["x2"]
