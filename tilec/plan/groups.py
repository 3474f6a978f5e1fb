"""Group the jobs that a frontend compiles in one run."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable

from tilec.model.job import Job, Member, Source
from tilec.plan.params import symbol_axes
from tilec_runtime.model.arch import Target

# Language, source, hints, target, and the most members of a group.
_Where = tuple[str, Source, tuple[tuple[str, int], ...], Target, int]


class Groups:
    """Groups of variants to compile in one run: one source, equal options, one target.

    Groups are made of all jobs of a manifest, so that an image does not depend on `--select`.
    """

    def __init__(self, jobs: Iterable[Job]) -> None:
        """Divide jobs into groups of at most `together` members, as declared by the frontend."""
        self._groups: dict[tuple[_Where, Member], tuple[Member, ...]] = {}
        counts: dict[_Where, Counter[Member]] = {}
        for job in jobs:
            counts.setdefault(_where(job), Counter())[_member(job)] += 1
        for where, members in counts.items():
            most = where[-1]
            # Sort by content: moving a kernel in the manifest then rebuilds nothing.
            ordered = sorted(
                members,
                key=lambda member: (
                    member.symbol,
                    *((name, type(v).__name__, v) for name, v in member.axes),
                ),
            )
            for start in range(0, len(ordered), most):
                chunk = tuple(ordered[start : start + most])
                if most > 1 and sum(members[member] for member in chunk) > 1:
                    self._groups.update(((where, member), chunk) for member in chunk)

    def of(self, job: Job) -> Job:
        """Return the job with its group, or unchanged if it is compiled alone."""
        group = self._groups.get((_where(job), _member(job)))
        return dataclasses.replace(job, group=group) if group else job


def _where(job: Job) -> _Where:
    return job.spec.language, job.spec.source, job.hints, job.target, job.spec.decl.together


def _member(job: Job) -> Member:
    """Return the symbol of the job's entry point with the axis values in it."""
    named = set(symbol_axes(job.spec.symbol))
    return Member(
        symbol=job.spec.symbol,
        axes=tuple((name, value) for name, value in job.variant.constants if name in named),
    )
