"""Which task a worker gets next: its own affinity first, then one that no other worker is at;
shared work is never done twice.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

from tilec.compile.crew import Crew, Task


def test_tasks_of_one_affinity_stay_with_the_worker_that_did_one() -> None:
    crew = Crew(size=2, setup=None, spool=Path("unused"), environ={}, grace=0.0)  # type: ignore[arg-type]
    first, second = object(), object()

    def task(name: str, affinity: str) -> Task:
        return Task(
            request=None, subject=name, limit=1.0, slow="", raise_limit="", affinity=affinity
        )  # type: ignore[arg-type]

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


def test_shared_work_waits_for_the_worker_that_did_it() -> None:
    crew = Crew(size=2, setup=None, spool=Path("unused"), environ={}, grace=0.0)  # type: ignore[arg-type]
    first, second = object(), object()

    def task(name: str, affinity: str, *, shared: bool = True) -> Task:
        return Task(
            request=None,
            subject=name,
            limit=1.0,
            slow="",
            raise_limit="",
            affinity=affinity,
            shared=shared,
        )  # type: ignore[arg-type]

    waiting = deque([task("g1", "g"), task("h1", "h"), task("g2", "g")])
    crew._waiting = waiting
    crew._idle, crew._last[second] = [first, second], "g"  # type: ignore[list-item, index]
    assert crew._startable() == 2  # one for each group
    assert crew._next(first, waiting).subject == "h1"
    assert (
        crew._next(first, waiting) is None
    )  # the second worker is free as well: its own work is waiting for it
    assert crew._startable() == 1
    crew._busy[second] = (waiting[0], 0.0)  # type: ignore[index]
    crew._idle.remove(second)  # type: ignore[arg-type]
    assert crew._next(first, waiting) is None
    assert crew._startable() == 0
    waiting.append(task("plain", "", shared=False))
    assert crew._next(first, waiting).subject == "plain"
    del crew._busy[second], crew._last[second]  # type: ignore[arg-type]
    assert [crew._next(first, waiting).subject for _ in range(2)] == [
        "g1",
        "g2",
    ]  # it died: another takes over
