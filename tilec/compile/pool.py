"""A pool of worker processes: `submit` tasks, get futures."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from tilec.compile.process import WorkerDiedError, WorkerProcess
from tilec.compile.worker import Reply, Request, Setup, Waiting
from tilec_runtime.errors import TilecError, ToolchainError

_NONE = ""  # an affinity to nothing
_START_LIMIT = 60.0  # seconds for a worker to import its modules


class TaskLostError(Exception):
    """A task's worker died, or was killed at the task's time limit.

    Attributes:
        death: how the worker ended; empty for the time limit.
        printed: by the worker during the task.
    """

    def __init__(self, death: str, printed: str) -> None:
        super().__init__(death)
        self.death = death
        self.printed = printed


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One request to a worker.

    Attributes:
        request: what the worker does.
        limit: seconds it may take.
        affinity: tasks with one affinity are faster on the worker that did one of them before.
        shared: tasks with this affinity share most of their work, so that no second worker may
            take one while the first lives.
        instead: replaces the task if its worker dies or its time limit passes; the waiting tasks of
            its affinity are replaced by theirs too.
    """

    request: Request
    limit: float
    affinity: Hashable = _NONE
    shared: bool = False
    instead: Task | None = None


@dataclasses.dataclass(eq=False, slots=True)
class _Entry:
    task: Task
    future: Future[tuple[Reply, str]]


@dataclasses.dataclass(eq=False, slots=True)
class _Seat:
    """One thread of the pool with its worker, and the affinity of the worker's latest task."""

    worker: WorkerProcess | None = None
    affinity: Hashable = _NONE
    busy: bool = False


class WorkerPool:
    """Runs tasks on up to `size` workers; the death of a worker costs one task.

    Each worker has a thread here that takes a task, sends it and waits for the reply. A worker
    starts when its thread has its first task, and lives until `close`.

    Args:
        size: most workers at once.
        setup: first message to each worker.
        spool: directory for logs, temporary files and images that the cache does not take.
        environ: environment of the workers.
        grace: seconds beyond a task's limit before its worker is killed, so that the frontend can
            report more itself.
        on_start: called in a thread of the pool when a worker gets a task.
    """

    def __init__(
        self,
        *,
        size: int,
        setup: Setup,
        spool: Path,
        environ: Mapping[str, str],
        grace: float,
        on_start: Callable[[Task], None],
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

    def submit(self, tasks: Sequence[Task]) -> list[Future[tuple[Reply, str]]]:
        """Queue tasks, to be done in this order but for affinities.

        A future's result is the reply and what the worker printed (empty after a success). Its
        exception is a TaskLostError, or a ToolchainError if no worker can be started.
        """
        entries = [_Entry(task, Future()) for task in tasks]
        with self._changed:
            self._waiting.extend(entries)
            wanted = sum(seat.busy for seat in self._seats) + len(self._waiting)
            while len(self._seats) < min(self._size, wanted):
                self._seats.append(_Seat())
                thread = threading.Thread(target=self._serve, args=(self._seats[-1],), daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify_all()
        return [entry.future for entry in entries]

    def close(self) -> None:
        """Kill every worker with its children. Futures that are not done stay so."""
        with self._changed:
            self._closed = True
            workers = [seat.worker for seat in self._seats if seat.worker]
            self._changed.notify_all()
        for worker in workers:
            worker.kill()
        for thread in self._threads:
            thread.join()

    def _serve(self, seat: _Seat) -> None:
        """Do tasks until the pool is closed or no worker can be started."""
        while (entry := self._take(seat)) is not None:
            try:
                worker = self._live(seat) or self._start(seat)
            except ToolchainError as error:
                self._leave(seat, entry, error)
                return
            try:
                self._run(seat, worker, entry)
            except Exception as error:  # noqa: BLE001 - without a result the build would hang
                worker.kill()
                entry.future.set_exception(error)
        if seat.worker:
            seat.worker.kill()

    def _take(self, seat: _Seat) -> _Entry | None:
        """Wait for a task that the seat may do; None once the pool is closed."""
        with self._changed:
            seat.busy = False
            self._changed.notify_all()
            while not self._closed:
                entry = self._pick(seat)
                if entry is not None:
                    self._waiting.remove(entry)
                    seat.busy, seat.affinity = True, entry.task.affinity
                    return entry
                self._changed.wait()
        return None

    def _pick(self, seat: _Seat) -> _Entry | None:
        """Return the next task for a seat, or None if it should wait.

        Preference: the affinity it last served, then an affinity that no other seat serves, then
        any task that shares no work.
        """
        others = [other for other in self._seats if other is not seat and other.affinity != _NONE]
        # An idle seat comes back for shared work that it did last.
        taken = {other.affinity for other in others}
        busy = {other.affinity for other in others if other.busy}
        if seat.affinity != _NONE:
            for entry in self._waiting:
                if entry.task.affinity == seat.affinity:
                    return entry
        for entry in self._waiting:
            if entry.task.affinity not in (taken if entry.task.shared else busy):
                return entry
        return next((entry for entry in self._waiting if not entry.task.shared), None)

    def _live(self, seat: _Seat) -> WorkerProcess | None:
        """Return the seat's worker, unless it died since its last task."""
        if seat.worker and not seat.worker.running:
            seat.worker.kill()
            seat.worker = None
        return seat.worker

    def _start(self, seat: _Seat) -> WorkerProcess:
        """Start the worker of a seat and wait until it is ready.

        Raises:
            ToolchainError: it could not be started.
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
        try:
            ready = worker.receive(_START_LIMIT)
            death = "" if ready else f"did not start within {_START_LIMIT:g} s"
        except WorkerDiedError as exc:
            death = str(exc)
        if death:
            worker.kill()
            printed = worker.printed().strip()
            raise _unstarted(f"a worker process {death} before it could do anything:\n{printed}")
        return worker

    def _leave(self, seat: _Seat, entry: _Entry, error: ToolchainError) -> None:
        """Continue with one worker less; fail the waiting tasks if none is left."""
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

    def _run(self, seat: _Seat, worker: WorkerProcess, entry: _Entry) -> None:
        """Do one task and set its result."""
        task = entry.task
        worker.clear_log()
        self._on_start(task)
        with self._changed:
            more = task.shared and any(e.task.affinity == task.affinity for e in self._waiting)
        worker.send((task.request, more))
        deadline = time.monotonic() + task.limit + self._grace
        death = ""
        try:
            while isinstance(reply := worker.receive(deadline - time.monotonic()), Waiting):
                deadline += task.limit
        except WorkerDiedError as exc:
            reply, death = None, str(exc)
        lost = reply is None or reply.overtime
        if lost:
            # Also after a tool's time limit: the tool was killed, the processes it started were not.
            worker.kill()
            with self._changed:
                seat.worker, seat.affinity = None, _NONE
        printed = worker.printed() if lost or isinstance(reply.result, TilecError) else ""
        if lost and task.instead is not None:
            self._replace(entry)
        elif reply is None:
            entry.future.set_exception(TaskLostError(death, printed))
        else:
            entry.future.set_result((reply, printed))

    def _replace(self, entry: _Entry) -> None:
        """Queue what a task has `instead`, and the same for the waiting tasks of its affinity."""
        affinity = entry.task.affinity
        with self._changed:
            self._waiting.insert(0, entry)
            for each in self._waiting:
                if each.task.affinity == affinity and each.task.instead is not None:
                    each.task = each.task.instead


def _unstarted(what: str) -> ToolchainError:
    return ToolchainError(
        what,
        cause="the Python environment of this build is broken, or the machine is out of processes "
        "or memory",
        fix="`tilec doctor` shows what is found; `-j 1` needs the least",
    )
