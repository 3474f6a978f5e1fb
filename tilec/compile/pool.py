"""Pools, which run tasks and return futures; the pool of local workers is here."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from tilec.compile.losses import lost
from tilec.compile.process import WorkerDiedError, WorkerProcess
from tilec.compile.worker import Compile, Reply, Request, Setup
from tilec.model.job import InputFile
from tilec_runtime.errors import CompileError, TilecError, ToolchainError
from tilec_runtime.model.kernel import ToolInfo

_START_LIMIT = 60.0  # seconds for a worker to import its modules


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """Requests that one worker runs in order.

    Attributes:
        requests: the requests.
        limit: time limit of each request in seconds.
        affinity: tasks with the same affinity are faster on the same worker; None for none.
        files, tools: files and tools that the keys of its jobs cover.
    """

    requests: tuple[Request, ...]
    limit: float
    affinity: Hashable = None
    files: tuple[InputFile, ...] = ()
    tools: tuple[ToolInfo, ...] = ()

    @property
    def bound(self) -> str:
        """Reason why it must run on this machine; empty if it may run on any."""
        for request in self.requests:
            if isinstance(request, Compile) and not request.job.cacheable:
                return f"{request.job.spec.source.path} has flags that are not checked"
        outside = [file.name for file in self.files if file.name.startswith("../")]
        if outside:
            return f"{outside[0]} lies outside of the project"
        return "" if self.files and self.tools else "what they read is not known"


Replies = tuple[Reply, ...]


class Pool(Protocol):
    """Runs several tasks at once."""

    def submit(self, task: Task) -> Future[Replies]:
        """Queue a task. The result ends with the first reply that is `lost`.

        The future's exception is a TilecError if the pool cannot do any task.
        """

    def close(self) -> None:
        """End all tasks and workers. Unfinished futures stay unfinished."""


@dataclasses.dataclass(eq=False, slots=True)
class _Entry:
    task: Task
    future: Future[Replies]


@dataclasses.dataclass(eq=False, slots=True)
class _Seat:
    """One thread of the pool with its worker, and the affinity of its last task."""

    worker: WorkerProcess | None = None
    affinity: Hashable = None
    busy: bool = False


class LocalPool:
    """Pool of up to `size` worker processes; the death of one fails one task only.

    Each worker has a thread in this process that takes a task, sends its requests and waits for
    the replies. A worker starts with its thread's first task, and lives until `close`.

    Args:
        size: limit of workers.
        setup: first message to each worker.
        spool: directory for logs, temporary files and uncached images.
        environ: environment of the workers.
        grace: seconds after a task's limit until its worker is killed, so that the frontend can
            report a better error itself.
        on_start: called in a thread of the pool when a worker gets a request.
    """

    def __init__(
        self,
        *,
        size: int,
        setup: Setup,
        spool: Path,
        environ: Mapping[str, str],
        grace: float,
        on_start: Callable[[Request], None],
    ) -> None:
        self.started = 0
        self._size = max(1, size)
        self._setup = setup
        self._spool = spool
        self._environ = environ
        self._grace = grace
        self._on_start = on_start
        self._changed = threading.Condition()
        self._closed = False
        self._waiting: list[_Entry] = []
        self._seats: list[_Seat] = []
        self._threads: list[threading.Thread] = []

    def submit(self, task: Task) -> Future[Replies]:
        """Queue a task; tasks start in this order, except for affinities.


        The future's exception is a ToolchainError if no worker can be started.
        """
        entry = _Entry(task, Future())
        with self._changed:
            self._waiting.append(entry)
            wanted = sum(seat.busy for seat in self._seats) + len(self._waiting)
            if len(self._seats) < min(self._size, wanted):
                self._seats.append(_Seat())
                thread = threading.Thread(target=self._serve, args=(self._seats[-1],), daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()
        return entry.future

    def close(self) -> None:
        """Kill every worker with its children. Unfinished futures stay unfinished."""
        with self._changed:
            self._closed = True
            workers = [seat.worker for seat in self._seats if seat.worker]
            self._changed.notify_all()
        for worker in workers:
            worker.kill()
        for thread in self._threads:
            thread.join()

    def _serve(self, seat: _Seat) -> None:
        """Run tasks until the pool is closed or no worker can be started."""
        while (entry := self._take(seat)) is not None:
            try:
                worker = self._live(seat) or self._start(seat)
            except ToolchainError as error:
                self._leave(seat, entry, error)
                return
            try:
                replies = tuple(self._replies(worker, entry.task))
            except Exception as error:  # noqa: BLE001 - without a result the build would hang
                worker.kill()
                entry.future.set_exception(error)
            else:
                entry.future.set_result(replies)
        if seat.worker:
            seat.worker.kill()

    def _take(self, seat: _Seat) -> _Entry | None:
        """Wait for a task; return None once the pool is closed."""
        with self._changed:
            seat.busy = False
            while not self._closed:
                if self._waiting:
                    entry = self._pick(seat)
                    self._waiting.remove(entry)
                    seat.busy, seat.affinity = True, entry.task.affinity
                    return entry
                self._changed.wait()
        return None

    def _pick(self, seat: _Seat) -> _Entry:
        """Return the next task for a seat.

        Preference: the seat's last affinity, then an affinity of no busy seat, then any.
        """
        busy = {other.affinity for other in self._seats if other.busy and other is not seat}

        def rank(entry: _Entry) -> int:
            affinity = entry.task.affinity
            if affinity is None:
                return 1
            return 0 if affinity == seat.affinity else 1 + (affinity in busy)

        return min(self._waiting, key=rank)

    def _live(self, seat: _Seat) -> WorkerProcess | None:
        """Return the seat's worker, or None if it has died since its last task."""
        if seat.worker and not seat.worker.running:
            seat.worker.kill()
            seat.worker = None
        return seat.worker

    def _start(self, seat: _Seat) -> WorkerProcess:
        """Start the worker of a seat and wait until it is ready.

        Raises:
            ToolchainError: the worker cannot be started.
        """
        with self._changed:
            self.started += 1
            log = self._spool / f"worker-{self.started}.log"
        try:
            self._spool.mkdir(parents=True, exist_ok=True)
            worker = WorkerProcess(self._setup, log=log, environ=self._environ)
        except OSError as exc:
            raise _unstarted(f"a worker process cannot be started: {exc.strerror or exc}") from exc
        with self._changed:
            seat.worker = worker
            closed = self._closed
        if closed:
            worker.kill()
        wait_until_ready(worker)
        return worker

    def _leave(self, seat: _Seat, entry: _Entry, error: ToolchainError) -> None:
        """Continue with one worker fewer; fail the waiting tasks if none is left."""
        failed: list[_Entry] = []
        with self._changed:
            self._seats.remove(seat)
            self._size = max(1, len(self._seats))
            self._waiting.insert(0, entry)
            if not self._seats:
                failed, self._waiting = self._waiting, []
            self._changed.notify_all()
        for each in failed:
            each.future.set_exception(error)

    def _replies(self, worker: WorkerProcess, task: Task) -> Iterator[Reply]:
        for request in task.requests:
            self._on_start(request)
            reply = ask(worker, request, limit=task.limit, grace=self._grace)
            yield reply
            if reply.lost:
                return


def wait_until_ready(worker: WorkerProcess) -> None:
    """Wait for a worker's first message; kill it if none comes.

    Raises:
        ToolchainError: the worker died, or did not start in time.
    """
    try:
        ready = worker.receive(_START_LIMIT)
        death = "" if ready else f"did not start within {_START_LIMIT:g} s"
    except WorkerDiedError as exc:
        death = str(exc)
    if death:
        worker.kill()
        printed = worker.printed().strip()
        raise _unstarted(f"a worker process {death} before it could do anything:\n{printed}")


def ask(worker: WorkerProcess, request: Request, *, limit: float, grace: float = 0.0) -> Reply:
    """Send a worker a request and wait for its reply.

    The worker is killed if it does not reply within `limit` and `grace` seconds.
    """
    worker.clear_log()
    worker.send(request)
    reply: Reply | None
    death = ""
    try:
        reply = worker.receive(limit + grace)
    except WorkerDiedError as exc:
        reply, death = None, str(exc)
    if reply is None:
        worker.kill()
        printed = worker.printed()
        return Reply(result=lost(request, death, limit, printed), printed=printed, lost=True)
    if not isinstance(reply.result, TilecError):
        return reply
    overtime = isinstance(reply.result, CompileError) and reply.result.overtime
    if overtime:  # the tool was killed, but not the processes that it started
        worker.kill()
    return dataclasses.replace(reply, printed=worker.printed(), lost=overtime)


def _unstarted(reason: str) -> ToolchainError:
    return ToolchainError(
        reason,
        cause="the Python environment of this build is broken, or the machine is out of processes "
        "or memory",
        fix="`tilec doctor` shows what is found; `-j 1` needs the least",
    )
