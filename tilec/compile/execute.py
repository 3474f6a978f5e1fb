"""Execution of compile jobs: cache look-ups, and compilation in worker processes."""

from __future__ import annotations

import os
import queue
import shutil
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, final

from tilec.compile.cache import Cache
from tilec.compile.events import Done, Observer, Outcome
from tilec.compile.failures import failure_folder, keep_failure
from tilec.compile.keys import KeyedJob
from tilec.compile.tasks import compile_task, shared_work
from tilec.compile.timings import expected_seconds
from tilec.frontends.base import ToolSearch
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, Source
from tilec_runtime.errors import CompileError, MissingError, TilecError

# Imported on use: an up-to-date build needs no worker, and must not wait for these imports.
if TYPE_CHECKING:
    from tilec.compile.pool import LocalPool, Pool, Replies, Task
    from tilec.compile.remote.session import RemoteCache
    from tilec.compile.worker import Reply, Request, Setup


@final
class JobRunner:
    """Worker processes for one build, started when the first of them is needed.

    Use it as a context manager: leaving it kills the workers and their children, removes the spool
    directory (read uncached images before) and trims the cache.

    Args:
        frontends: `module:Class` of each language's frontend.
        search: places and preferences for tools.
        cache: the cache, to which workers write.
        workers: limit of worker processes.
        observer: receives progress and notes.
        spool: directory for temporary files, logs and uncached images of this build.
        kept: directory for inputs, commands and logs of failed jobs.
        timeout: time limit for reading one source in seconds; a job's limit is in its spec.
        grace: seconds after a limit until a worker is killed.
        scheduler: address of the Dask scheduler whose workers compile; empty for local workers.
        fallback: compile on this machine if the cluster is unusable or lost.
        remote: the remote cache, or None.
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
        scheduler: str = "",
        fallback: bool = False,
        remote: RemoteCache | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._frontends = dict(frontends)
        self._search = search
        self._cache = cache
        self._workers = workers
        self._observer = observer
        self._spool = spool
        self._kept = kept
        self._timeout = timeout
        self._grace = grace
        self._scheduler = scheduler
        self._fallback = fallback
        self._remote = remote
        self._environ = environ
        # Workers' notes are not shown if this process's cache has given the same note.
        self._noted = cache.noted
        self._started_pool: LocalPool | None = None
        self._started_cluster: Pool | None = None
        # Calls to make in the main thread, since pools report from their own threads.
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._on_start: Callable[[Request], None] = lambda _: None

    def __enter__(self) -> JobRunner:
        """Return the runner itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the workers, and trim the cache after a success."""
        self.close()
        if kind is None:
            self._cache.trim()

    def close(self) -> None:
        """Kill every worker with its children, and remove the spool directory."""
        for pool in (self._started_cluster, self._started_pool):
            if pool:
                pool.close()
        shutil.rmtree(self._spool, ignore_errors=True)

    def declare(
        self, sources: Sequence[tuple[str, Source]]
    ) -> tuple[tuple[KernelDecl, ...] | TilecError, ...]:
        """Return the kernels of each (language, source), or the error of reading it.

        Raises:
            ToolchainError: no worker process can be started.
        """
        if not sources:
            return ()
        from tilec.compile.pool import Task
        from tilec.compile.worker import Declare

        requests = [Declare(language=language, source=source) for language, source in sources]
        results: dict[Request, tuple[KernelDecl, ...] | TilecError] = {}

        def on_done(task: Task, replies: Replies) -> Iterable[Task]:
            (request,), (reply,) = task.requests, replies
            assert isinstance(request, Declare)
            self._tell(reply.notes)
            assert isinstance(reply.result, tuple | TilecError)
            if isinstance(reply.result, CompileError):
                reply.result.log = reply.result.log or reply.printed
            results[request] = reply.result
            return ()

        self._run([Task(requests=(one,), limit=self._timeout) for one in requests], on_done)
        return tuple(results[request] for request in requests)

    def compile(
        self,
        jobs: Sequence[KeyedJob],
        *,
        fresh: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> tuple[Outcome, ...]:
        """Return the outcome of each job.

        Args:
            jobs: jobs to compile.
            fresh: compile even cached jobs.
            meanwhile: other work of this process, called once after the last job has started, if
                any job is compiled.

        Raises:
            ToolchainError: no worker process can be started.
        """
        outcomes: dict[str, Outcome] = {}
        missing: dict[str, KeyedJob] = {}
        for keyed in jobs:
            outcome = None if fresh or not keyed.job.cacheable else self._cache.get(keyed.key)
            if outcome is None:
                missing[keyed.key] = keyed
                continue
            outcomes[keyed.key] = outcome
            if self._remote and self._remote.fills:
                self._remote.offer(keyed.key, outcome)
        self._observer.started(len(jobs), len(outcomes))
        if self._remote and not fresh:
            outcomes.update(self._fetch(self._remote, missing))
        if missing:
            outcomes.update(self._compile(missing, fresh, meanwhile))
        self._observer.finished()
        return tuple(outcomes[keyed.key] for keyed in jobs)

    def _fetch(
        self, remote: RemoteCache, missing: dict[str, KeyedJob]
    ) -> Iterator[tuple[str, Outcome]]:
        """Yield outcomes from the remote cache by key; remove their jobs from `missing`."""
        for key, outcome in remote.fetch(
            [key for key, one in missing.items() if one.job.cacheable]
        ):
            self._observer.job_finished(missing.pop(key).job.id, outcome)
            yield key, outcome

    def _compile(
        self,
        missing: Mapping[str, KeyedJob],
        fresh: bool,
        meanwhile: Callable[[], None] | None,
    ) -> dict[str, Outcome]:
        """Compile jobs, given by key."""
        from tilec.compile.worker import Compile

        waiting = set(missing)
        outcomes: dict[str, Outcome] = {}

        def on_start(request: Request) -> None:
            assert isinstance(request, Compile)
            if request.key not in waiting:
                return
            waiting.remove(request.key)
            self._observer.job_started(request.job.id)
            if meanwhile and not waiting:
                meanwhile()

        def on_done(task: Task, replies: Replies) -> Iterable[Task]:
            for request, reply in zip(task.requests, replies, strict=False):
                assert isinstance(request, Compile)
                if request.in_group and reply.lost:
                    self._tell((_apart_note(request.job),))
                    break
                outcomes[request.key] = self._finish(missing[request.key], reply)
            return [
                compile_task([missing[request.key]], fresh=fresh, apart=True)
                for request in task.requests
                if isinstance(request, Compile) and request.key not in outcomes
            ]

        work: dict[Hashable, list[KeyedJob]] = {}
        for keyed in missing.values():
            work.setdefault(shared_work(keyed), []).append(keyed)
        longest_first = sorted(work.values(), key=_expected_seconds, reverse=True)
        tasks = [compile_task(together, fresh=fresh) for together in longest_first]
        self._run(tasks, on_done, on_start)
        return outcomes

    def _finish(self, keyed: KeyedJob, reply: Reply) -> Outcome:
        """Report the outcome of a job, and offer its image to the remote cache."""
        self._tell(reply.notes)
        outcome = self._outcome(keyed.job, reply.result, reply.printed)
        self._observer.job_finished(keyed.job.id, outcome)
        if self._remote and isinstance(outcome, Done) and not outcome.cached:
            self._remote.offer(keyed.key, outcome)
        return outcome

    def _run(
        self,
        tasks: Sequence[Task],
        on_done: Callable[[Task, Replies], Iterable[Task]],
        on_start: Callable[[Request], None] = lambda _: None,
    ) -> None:
        """Run tasks, and those that `on_done` returns; callbacks run in this thread.

        Raises:
            ToolchainError: no worker process can be started.
        """
        self._on_start = on_start
        running = 0

        def start(task: Task) -> None:
            nonlocal running
            running += 1
            pool = self._pool_for(task)
            future = pool.submit(task)
            future.add_done_callback(
                lambda done: self._events.put(lambda: finish(task, done, pool))
            )

        def finish(task: Task, future: Future[Replies], pool: Pool) -> None:
            nonlocal running
            running -= 1
            try:
                more = on_done(task, future.result())
            except MissingError as error:
                if not self._fallback or pool is self._started_pool:
                    raise
                self._scheduler = ""
                self._tell((f"{error.what}: the rest is compiled on this machine",))
                more = (task,)
            for each in more:
                start(each)

        for task in tasks:
            start(task)
        while running:
            self._events.get()()

    def _pool_for(self, task: Task) -> Pool:
        """Return the pool of a task: the cluster if it exists and can run the task."""
        from tilec.compile.worker import Compile

        if not self._scheduler or not isinstance(task.requests[0], Compile):
            return self._pool
        if task.bound:
            self._tell((f"some jobs are compiled on this machine: {task.bound}",))
            return self._pool
        if self._started_cluster is None:
            from tilec.compile.cluster.pool import DaskPool

            self._started_cluster = DaskPool(
                self._scheduler,
                setup=self._setup,
                grace=self._grace,
                on_start=self._queue_start,
                note=lambda text: self._events.put(lambda: self._tell((text,))),
                remote=self._remote,
            )
        return self._started_cluster

    def _queue_start(self, request: Request) -> None:
        self._events.put(lambda: self._on_start(request))

    @property
    def _setup(self) -> Setup:
        from tilec.compile.worker import Setup

        root = self._cache.root
        return Setup(
            frontends=self._frontends,
            search=self._search,
            cache_root="" if root is None else os.path.abspath(root),  # noqa: PTH100 - links stay
            spool=str(self._spool),
        )

    @property
    def _pool(self) -> LocalPool:
        if self._started_pool is None:
            from tilec.compile.pool import LocalPool

            self._started_pool = LocalPool(
                size=self._workers,
                setup=self._setup,
                spool=self._spool,
                environ=os.environ if self._environ is None else self._environ,
                grace=self._grace,
                on_start=self._queue_start,
            )
        return self._started_pool

    def _outcome(self, job: Job, result: object, printed: str) -> Outcome:
        if isinstance(result, Done):
            shutil.rmtree(failure_folder(self._kept, job), ignore_errors=True)
            if not result.cached:
                self._cache.wrote(result.blob.size)
            return result
        assert isinstance(result, TilecError)
        result.kernel = result.kernel or job.variant.id
        result.target = result.target or str(job.target)
        if isinstance(result, CompileError):
            result.log = result.log or printed
            try:
                keep_failure(self._kept, job, result, printed)
            except OSError as exc:
                message = f"inputs of failed jobs are not kept: {exc.strerror}: {self._kept}"
                self._tell((message,))
        return result

    def _tell(self, notes: Sequence[str]) -> None:
        for text in notes:
            if text not in self._noted:
                self._noted.add(text)
                self._observer.note(text)


def _apart_note(job: Job) -> str:
    return (
        f"variants of {job.spec.source.path} that are compiled in one go for {job.target} took too "
        "long or crashed the compiler: each is compiled alone, and not kept for the next build; "
        "`group = 1` says so from the start"
    )


def _expected_seconds(together: Sequence[KeyedJob]) -> float:
    return sum(expected_seconds(keyed.job) for keyed in together)
