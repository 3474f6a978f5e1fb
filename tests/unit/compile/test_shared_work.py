"""Jobs of a group: one worker gets them all, and what keeps the group from being compiled keeps
none of its jobs.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tilec.compile.events import Done
from tilec.model.job import Job, Member


def expect(monkeypatch: pytest.MonkeyPatch, seconds: dict[Job, float]) -> None:
    """Let jobs be expected to take these times."""
    by_id = {job.id: taken for job, taken in seconds.items()}
    monkeypatch.setattr("tilec.compile.execute.expected_seconds", lambda job: by_id[job.id])


def grouped(project: Any, *sizes: int, target: str = "sm_90", **options: Any) -> list[Job]:
    members = tuple(Member(symbol="add", axes=(("BM", bm),)) for bm in sizes)
    return [
        dataclasses.replace(project.job(bm, target=target, **options), group=members)
        for bm in sizes
    ]


def test_groups_of_several_targets_go_to_several_workers(project) -> None:
    jobs = project.keyed(
        *(
            job
            for target in ("sm_80", "sm_90")
            for job in grouped(project, 1, 2, 3, target=target, sleep=0.05)
        )
    )
    with project.pool(workers=3) as pool:
        assert all(isinstance(outcome, Done) for outcome in pool.compile(jobs))
        assert pool._pool.started == 2


def test_the_group_that_takes_longest_in_all_starts_first(project, monkeypatch) -> None:
    single, group = project.job(9), grouped(project, 1, 2, 3)
    other = grouped(project, 1, target="sm_80")
    expect(monkeypatch, {single: 2.0, **dict.fromkeys(group, 1.0), **dict.fromkeys(other, 1.5)})
    with project.pool() as pool:
        pool.compile(project.keyed(single, *group, *other))
    assert project.compiled == [job.id for job in (*group, single, *other)]


@pytest.mark.parametrize("misdeed", [{"hang": 1}, {"crash": "SIGSEGV"}, {"exit": 3}])
def test_a_group_that_takes_too_long_or_crashes_is_compiled_one_by_one(
    project, hanging, misdeed
) -> None:
    misdeed = {name: str(hanging) if name == "hang" else value for name, value in misdeed.items()}
    jobs = project.keyed(*grouped(project, 1, 2, 3, grouped=True, **misdeed))
    with project.pool(workers=2) as pool:
        outcomes = pool.compile(jobs)
        assert [isinstance(outcome, Done) and not outcome.cached for outcome in outcomes] == [
            True
        ] * 3
        images = [outcome.blob.read() for outcome in outcomes if isinstance(outcome, Done)]
    assert len(set(images)) == 3
    note = (
        "variants of k.fake that are compiled in one go for sm_90 took too long or crashed the compiler: each is compiled alone, and not "
        "kept for the next build; `group = 1` says so from the start"
    )
    assert project.observer.notes == [note]
    started = [event[1] for event in project.observer.events if event[0] == "job_started"]
    assert sorted(started) == [job.job.id for job in jobs], "two workers begin in any order"
    assert all(
        project.cache.get(job.key) is None for job in jobs
    )  # the next build tries them together again


def test_a_member_that_fails_alone_too_is_the_one_that_is_blamed(project) -> None:
    jobs = project.keyed(*grouped(project, 1, 2, 3, only="BM2-", crash="SIGSEGV"))
    with project.pool() as pool:
        outcomes = pool.compile(jobs)
    assert [isinstance(outcome, Done) for outcome in outcomes] == [True, False, True]
    assert outcomes[1].what == "add-BM2-sm_90: the process that compiles it was killed by SIGSEGV"
    assert (outcomes[1].kernel, outcomes[1].target) == ("add-BM2", "sm_90")
