"""Runs jobs: looks each up in the cache, compiles the rest in worker processes, and gives every job
its outcome.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, final

from tilec.compile.cache import Cache
from tilec.compile.events import Done, Failed, Observer, Outcome
from tilec.compile.schedule import Timings
from tilec.frontends.base import ToolSearch
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, Source
from tilec_runtime.errors import CacheError, CompileError, TilecError
from tilec_runtime.model.digest import sha256

if TYPE_CHECKING:  # what drives workers is imported when the first of them is needed: an up-to-date build needs none
    from tilec.compile import wire
    from tilec.compile.crew import Crew, Task


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class KeyedJob:
    """A job with its cache key.

    `inputs` is the digest of the files that the key was made of (`inputs_digest`), empty for a job
    that is not held against them; `weight` is the seconds it is expected to take, 0 leaves that to
    the pool.
    """

    job: Job
    key: str
    inputs: str = ""
    weight: float = 0.0


@final
class Pool:
    """Worker processes for one build, started when the first of them is needed and shared by
    everything that the build asks for.

    Use it as a context manager: leaving it ends the workers, removes the spool directory (so images
    that the cache did not take are read before that) and brings the cache back to its bound. When
    it is left through an exception such as KeyboardInterrupt, workers and their children are killed
    in the middle of what they do.

    Args:
        frontends: where each language's frontend is found, as `module:Class`.
        search: where frontends look for tools.
        cache: looked up before anything is compiled; workers write to it.
        workers: most worker processes.
        observer: hears of progress and notes.
        spool: directory for this build alone: temporary files, logs, and images that the cache does
            not take.
        kept: directory where inputs, commands and logs of failed jobs are kept.
        timeout: seconds that reading one source may take (a job's own limit is in its spec).
        grace: seconds beyond a limit before a worker is killed.
        environ: environment of the workers; None for that of this process.
    """

    def __init__(
        self,
        *,
        frontends: Mapping[str, str],
        search: ToolSearch,
        cache: Cache,
        workers: int,
        observer: Observer,
        spool: Path,
        kept: Path,
        timeout: float = 300.0,
        grace: float = 2.0,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._cache = cache
        self._observer = observer
        self._spool = spool
        self._kept = kept
        self._timeout = timeout
        self._noted = (
            cache.noted
        )  # what the cache told already is not told again when a worker says the same
        self._timings = Timings(cache)
        self._frontends = dict(frontends)
        self._search = search
        self._workers = workers
        self._grace = grace
        self._environ = environ
        self._hired: Crew | None = None

    @property
    def started(self) -> int:
        """Worker processes started so far."""
        return self._hired.started if self._hired else 0

    def __enter__(self) -> Pool:
        """The pool itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the workers; see the class."""
        self.close()
        if kind is None:
            self._cache.trim()

    def close(self) -> None:
        """End every worker with its children, and remove the spool directory."""
        if self._hired:
            self._hired.close()
        shutil.rmtree(self._spool, ignore_errors=True)

    def declare(
        self, sources: Sequence[tuple[str, Source]]
    ) -> tuple[tuple[KernelDecl, ...] | TilecError, ...]:
        """The kernels of each (language, source), or why they cannot be read; in the order of
        `sources`.

        Raises:
            ToolchainError: no worker process can be started.
        """
        results: dict[int, tuple[KernelDecl, ...] | TilecError] = {}
        places: dict[int, int] = {}
        tasks = []
        for place, (language, source) in enumerate(sources):
            task = self._declare_task(language, source)
            places[id(task)] = place
            tasks.append(task)

        def ended(task: Task, reply: wire.Reply, printed: str) -> None:
            self._tell(reply.notes)
            result = reply.result
            assert not isinstance(result, Done)
            if isinstance(result, CompileError) and not result.log:
                result.log = printed
            results[places[id(task)]] = result

        self._crew.run(tasks, begun=lambda _: None, ended=ended)
        return tuple(results[place] for place in range(len(tasks)))

    def compile(
        self,
        jobs: Sequence[KeyedJob],
        *,
        fresh: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> tuple[Outcome, ...]:
        """The outcome of each job, in the order of `jobs`; jobs with one key are compiled once.

        Args:
            jobs: what to compile.
            fresh: compile even what is in the cache.
            meanwhile: called once while the last jobs are compiled, where any are: something short
                that this process has to do anyway.

        Raises:
            ToolchainError: no worker process can be started.
        """
        outcomes: dict[str, Outcome] = {}
        missing: dict[str, list[KeyedJob]] = {}
        for keyed in jobs:
            if keyed.key in missing:
                missing[keyed.key].append(keyed)
            elif keyed.key not in outcomes:
                found = None if fresh or not keyed.job.cacheable else self._cache.get(keyed.key)
                if found is None:
                    missing[keyed.key] = [keyed]
                else:
                    outcomes[keyed.key] = found
        self._observer.started(len(jobs), len(jobs) - sum(map(len, missing.values())))
        if missing:
            self._compile(missing, outcomes, fresh, meanwhile)
        self._observer.finished()
        return tuple(outcomes[keyed.key] for keyed in jobs)

    def read(self, keyed: KeyedJob, done: Done) -> bytes:
        """The image's bytes; compiled again where the cache lost them after the look-up, and then
        kept where nobody else empties it.

        Raises:
            TilecError: the job does not compile any more, or gives other bytes now.
        """
        try:
            return done.blob.read()
        except CacheError as exc:
            self._cache.drop(keyed.key)
            self._tell((f"{keyed.job.id} is compiled again: {exc.what}",))
        replies: list[wire.Reply] = []
        again = _compile_task(keyed, fresh=True, spooled=True)
        self._crew.run(
            [again], begun=lambda _: None, ended=lambda _, reply, __: replies.append(reply)
        )
        result = replies[0].result
        if isinstance(result, TilecError):
            raise result
        assert isinstance(result, Done)
        if result.info.digest != done.info.digest:
            raise CacheError(
                f"{keyed.job.id}: the cache lost its image, and compiling it again gave other bytes",
                cause="the cache was emptied while the build was running, and a compiler whose output varies takes part",
                fix="run the build again",
            )
        return result.blob.read()

    @property
    def _crew(self) -> Crew:
        """The workers' side, made when the first of them is needed."""
        if self._hired is None:
            from tilec.compile.crew import Crew
            from tilec.compile.wire import Setup

            root, shared = (
                "" if place is None else os.path.abspath(place)  # noqa: PTH100 - links stay
                for place in (self._cache.root, self._cache.shared)
            )
            self._hired = Crew(
                size=self._workers,
                setup=Setup(
                    frontends=self._frontends,
                    search=self._search,
                    cache_root=root,
                    shared_root=shared,
                    spool=str(self._spool),
                ),
                spool=self._spool,
                environ=os.environ if self._environ is None else self._environ,
                grace=self._grace,
            )
        return self._hired

    def _compile(
        self,
        missing: Mapping[str, list[KeyedJob]],
        outcomes: dict[str, Outcome],
        fresh: bool,
        meanwhile: Callable[[], None] | None,
    ) -> None:
        firsts = self._longest_first([twins[0] for twins in missing.values()])
        announced: set[str] = set()

        def begun(task: Task) -> None:
            request = _request(task)
            if request.apart:
                self._tell((_apart(request.job),))
            if request.key in announced:
                return
            announced.add(request.key)
            for twin in missing[request.key]:
                self._observer.job_started(twin.job.id)

        def ended(task: Task, reply: wire.Reply, printed: str) -> None:
            self._tell(reply.notes)
            first, *twins = missing[_request(task).key]
            outcome = outcomes[first.key] = self._outcome(first.job, reply.result, printed)
            self._observer.job_finished(first.job.id, outcome)
            for twin in twins:
                shared = (
                    dataclasses.replace(outcome, cached=True)
                    if isinstance(outcome, Done)
                    else outcome
                )
                self._observer.job_finished(twin.job.id, shared)

        near = Counter(_neighbours(keyed.job) for keyed in firsts)
        tasks = [
            _compile_task(keyed, fresh=fresh, alone=near[_neighbours(keyed.job)] == 1)
            for keyed in firsts
        ]
        self._crew.run(tasks, begun=begun, ended=ended, meanwhile=meanwhile)
        self._timings.save()

    def _longest_first(self, jobs: Sequence[KeyedJob]) -> list[KeyedJob]:
        """Jobs by how long they will take; those of a group count as one, and stay together."""
        weights = [keyed.weight or self._timings.expected(keyed.job) for keyed in jobs]
        totals: dict[object, float] = {}
        for keyed, weight in zip(jobs, weights, strict=True):
            if keyed.job.group:
                totals[_work(keyed.job)] = totals.get(_work(keyed.job), 0.0) + weight
        order = [
            totals[_work(keyed.job)] if keyed.job.group else weight
            for keyed, weight in zip(jobs, weights, strict=True)
        ]
        return [
            keyed
            for _, keyed in sorted(
                zip(order, jobs, strict=True), key=lambda pair: pair[0], reverse=True
            )
        ]

    def _outcome(self, job: Job, result: wire.Result, printed: str) -> Outcome:
        from tilec.compile import kept as keeping

        if isinstance(result, Done):
            keeping.forget(self._kept, job)
            if not result.cached:
                self._timings.measured(job, result.seconds)
                self._cache.wrote(result.blob.size)
            return result
        assert isinstance(result, TilecError)
        result.kernel = result.kernel or job.variant.id
        result.target = result.target or str(job.target)
        if isinstance(result, CompileError):
            result.log = result.log or printed
            if not result.kept:
                try:
                    keeping.keep(self._kept, job, result, printed)
                except OSError as exc:
                    self._tell(
                        (f"inputs of failed jobs are not kept: {exc.strerror}: {self._kept}",)
                    )
        return Failed(error=result)

    def _declare_task(self, language: str, source: Source) -> Task:
        from tilec.compile.crew import Task
        from tilec.compile.wire import Declare

        return Task(
            request=Declare(language=language, source=source),
            subject=source.path,
            limit=self._timeout,
            slow="code at the top level of the source is run when it is read, and it waits or does much",
            raise_limit=_RAISE,
        )

    def _tell(self, notes: Sequence[str]) -> None:
        for text in notes:
            if text not in self._noted:
                self._noted.add(text)
                self._observer.note(text)


_RAISE = "raise `timeout` in [toolchain], in seconds"


def _compile_task(
    keyed: KeyedJob, *, fresh: bool, alone: bool = False, apart: bool = False, spooled: bool = False
) -> Task:
    """The task of a job; `alone` where it is quicker on no worker, `apart` where its group is to be
    left out, `spooled` for no cache.
    """
    from tilec.compile.crew import Task
    from tilec.compile.wire import Compile

    job = keyed.job
    shared = bool(job.group) and not apart
    affinity: Hashable = "" if alone else _neighbours(job)
    limit = job.spec.timeout * (len(job.group) if shared else 1)
    lock = "" if fresh or apart else _lock_name(keyed)
    request = Compile(
        job=job,
        key=keyed.key,
        fresh=fresh,
        inputs=keyed.inputs,
        apart=apart,
        spooled=spooled,
        lock=lock,
        patience=limit,
    )
    return Task(
        request=request,
        subject=f"{job.id} and what is compiled with it" if shared else job.id,
        limit=limit,
        kernel=job.variant.id,
        target=str(job.target),
        slow="the compiler hangs, or the variant is very large",
        raise_limit=f"{_RAISE}, or exclude the variant from the matrix",
        affinity=_work(job) if shared else affinity,
        shared=shared,
        instead=_compile_task(keyed, fresh=fresh, apart=True) if shared else None,
    )


def _work(job: Job) -> Hashable:
    """What the jobs of a group have in common, PTX and machine code of one architecture together."""
    return (job.spec.source, job.target.number, job.hints, job.group)


def _lock_name(keyed: KeyedJob) -> str:
    """What processes hold while they compile a job: its key; for a group one name in every
    checkout, since one compile serves all of it.
    """
    job = keyed.job
    if not job.group:
        return keyed.key
    return sha256(
        repr((keyed.inputs, job.spec.source.path, job.target.number, job.hints, job.group)).encode()
    )


def _neighbours(job: Job) -> Hashable:
    """What jobs that are compiled alone have in common with those that are quicker on the same
    worker.

    Instances of a template share precompiled headers, PTX and machine code of one architecture
    share the compiler's first half.
    """
    return (
        job.spec.source.path,
        "" if "<" in job.spec.symbol else job.variant.id,
        job.target.number,
    )


def _apart(job: Job) -> str:
    return (
        f"variants of {job.spec.source.path} that are compiled in one go for {job.target} took too long or crashed the compiler: each is "
        f"compiled alone, and not kept for the next build; `group = 1` says so from the start"
    )


def _request(task: Task) -> wire.Compile:
    from tilec.compile.wire import Compile

    assert isinstance(task.request, Compile)
    return task.request
