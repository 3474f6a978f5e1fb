"""Tasks of jobs for workers: requests, time limits, and affinities to a worker."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from tilec.compile.keys import KeyedJob
from tilec.model.job import Job

# An up-to-date build needs no worker: it does not wait for the imports of these.
if TYPE_CHECKING:
    from tilec.compile.pool import Task


def compile_task(together: Sequence[KeyedJob], *, fresh: bool, apart: bool = False) -> Task:
    """Return the task of one job, or of jobs that are compiled together.

    Args:
        together: the jobs.
        fresh: compile even cached jobs.
        apart: compile the job without its group.
    """
    from tilec.compile.pool import Task
    from tilec.compile.worker import Compile

    first = together[0].job
    limit = first.spec.timeout * (1 if apart else max(1, len(first.group)))
    requests = tuple(
        Compile(
            job=keyed.job,
            key=keyed.key,
            fresh=fresh,
            inputs=keyed.inputs,
            apart=apart,
        )
        for keyed in together
    )
    return Task(
        requests=requests,
        limit=limit,
        affinity=affinity_of(first),
        files=together[0].files,
        tools=together[0].tools,
    )


def shared_work(keyed: KeyedJob) -> Hashable:
    """Return the key of jobs that are compiled together.

    PTX and machine code of one architecture share a key.
    """
    job = keyed.job
    if not job.group:
        return keyed.key
    return (job.spec.source, job.target.number, job.hints, job.group)


def affinity_of(job: Job) -> Hashable:
    """Return the affinity of a job.

    Jobs with the same affinity are faster on one worker.

    Instances of a template share precompiled headers. PTX and machine code of one architecture
    share the compiler's first half.
    """
    variant = "" if "<" in job.spec.symbol else job.variant.id
    return (job.spec.source.path, variant, job.target.number)
