"""A crew of workers: hands out tasks, watches their time limits, and turns a worker's crash into
its task's error.
"""

from __future__ import annotations

import dataclasses
import selectors
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path

from tilec.compile import wire
from tilec.compile.process import WorkerProcess, kill_all
from tilec_runtime.errors import CompileError, TilecError, ToolchainError

_NONE = ""  # an affinity to nothing
_START_LIMIT = 60.0  # seconds for a worker to import what it needs


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One request to a worker.

    Attributes:
        request: what is asked.
        subject: what it is about, for messages: a job's id, a source's path.
        limit: seconds it may take.
        kernel, target: of its error, where it has them.
        slow: usual cause of a time limit that is reached; `raise_limit` is the next step then.
        affinity: tasks with one affinity are quicker on the worker that did one of them before.
        shared: they share most of their work: another worker waits rather than do it again, as long
            as the first one lives.
        instead: what is done where time or a crash ends this one; the tasks of its affinity that
            wait are replaced by theirs too.
    """

    request: wire.Request
    subject: str
    limit: float
    kernel: str = ""
    target: str = ""
    slow: str
    raise_limit: str
    affinity: Hashable = _NONE
    shared: bool = False
    instead: Task | None = None


class Crew:
    """At most `size` workers, started when there is something to do and kept until `close`.

    Args:
        size: most workers at once, at least 1.
        setup: what each is told first.
        spool: directory for their logs, temporary files and images that the cache does not take;
            made on the first start.
        environ: environment of the workers.
        grace: seconds beyond a task's limit before its worker is killed, so that the frontend can
            tell more itself.
    """

    def __init__(
        self, *, size: int, setup: wire.Setup, spool: Path, environ: Mapping[str, str], grace: float
    ) -> None:
        self.started = 0
        self._size = max(1, size)
        self._setup = setup
        self._spool = spool
        self._environ = environ
        self._grace = grace
        self._idle: list[WorkerProcess] = []
        self._starting: dict[WorkerProcess, float] = {}
        self._busy: dict[WorkerProcess, tuple[Task, float]] = {}
        self._last: dict[WorkerProcess, Hashable] = {}
        self._waiting: deque[Task] = deque()
        self._selector = selectors.DefaultSelector()

    def run(
        self,
        tasks: Sequence[Task],
        *,
        begun: Callable[[Task], None],
        ended: Callable[[Task, wire.Reply, str], None],
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """Do every task, in this order but for affinities.

        `ended` gets the reply and what the worker printed (empty for tasks that went well).
        `meanwhile` is called once, when every task was handed out and the last are being done.

        Raises:
            ToolchainError: no worker can be started.
        """
        self._waiting = waiting = deque(tasks)
        self._wait(ended, at_once=True)  # learns of workers that died while there was nothing to do
        while waiting or self._busy:
            self._staff()
            for worker in [*reversed(self._idle)]:
                task = self._next(worker, waiting)
                if task is not None:
                    self._idle.remove(worker)
                    self._give(worker, task, begun)
            if meanwhile and self._busy and not waiting:
                meanwhile()
                meanwhile = None
            self._wait(ended)

    def close(self) -> None:
        """End every worker and its children at once."""
        kill_all([*self._idle, *self._starting, *self._busy])
        self._idle.clear()
        self._starting.clear()
        self._busy.clear()
        self._selector.close()

    def _staff(self) -> None:
        there = len(self._idle) + len(self._starting) + len(self._busy)
        if there >= self._size:
            return
        for _ in range(
            min(self._size - there, self._startable() - len(self._idle) - len(self._starting))
        ):
            try:
                self._spool.mkdir(parents=True, exist_ok=True)
                worker = WorkerProcess(
                    self._setup,
                    log=self._spool / f"worker-{self.started}.log",
                    environ=self._environ,
                )
            except OSError as exc:
                self._too_few(f"a worker process cannot be started: {exc.strerror or exc}", exc)
                return
            self.started += 1
            self._starting[worker] = time.monotonic() + _START_LIMIT
            self._selector.register(worker, selectors.EVENT_READ)

    def _too_few(self, what: str, exc: Exception | None) -> None:
        """Go on with the workers that there are; without any, there is no build."""
        there = len(self._idle) + len(self._starting) + len(self._busy)
        if not there:
            raise ToolchainError(
                what,
                cause="the Python environment of this build is broken, or the machine is out of processes or memory",
                fix="`tilec doctor` shows what is found; `-j 1` needs the least",
            ) from exc
        self._size = there

    def _startable(self) -> int:
        """How many workers would find something to do: tasks that share their work keep one busy,
        which may be there already.
        """
        held = {*self._last.values()}
        groups = {task.affinity for task in self._waiting if task.shared}
        there = sum(self._last.get(worker) in groups for worker in self._idle)
        return sum(not task.shared for task in self._waiting) + len(groups - held) + there

    def _next(self, worker: WorkerProcess, waiting: deque[Task]) -> Task | None:
        """The first task of the worker's own affinity, else the first that no other worker is at,
        else the first that shares no work.
        """
        own = self._last.get(worker, _NONE)
        # Whoever did a task last comes back for those that share its work, so that nothing waits
        # for ever.
        others = {affinity for other, affinity in self._last.items() if other is not worker} - {
            _NONE
        }
        busy = {self._last.get(other, _NONE) for other in self._busy} - {_NONE}
        place = (
            next((i for i, task in enumerate(waiting) if task.affinity == own), None)
            if own != _NONE
            else None
        )
        if place is None:
            place = next(
                (
                    i
                    for i, task in enumerate(waiting)
                    if task.affinity not in (others if task.shared else busy)
                ),
                None,
            )
        if place is None:
            place = next((i for i, task in enumerate(waiting) if not task.shared), None)
        if place is None:
            return None
        chosen = waiting[place]
        del waiting[place]
        return chosen

    def _give(self, worker: WorkerProcess, task: Task, begun: Callable[[Task], None]) -> None:
        self._last[worker] = task.affinity
        worker.clear_log()
        self._busy[worker] = (task, time.monotonic() + task.limit + self._grace)
        begun(task)
        request = task.request
        if isinstance(request, wire.Compile) and task.shared:
            more = any(other.affinity == task.affinity for other in self._waiting)
            request = dataclasses.replace(request, more=more)
        worker.send(wire.pack(request))

    def _wait(
        self, ended: Callable[[Task, wire.Reply, str], None], *, at_once: bool = False
    ) -> None:
        """Deal with what has happened, after waiting until something does."""
        deadlines = [*self._starting.values(), *(deadline for _, deadline in self._busy.values())]
        if not deadlines and not at_once:
            return
        for key, _ in self._selector.select(
            0.0 if at_once else max(0.0, min(deadlines) - time.monotonic())
        ):
            worker = key.fileobj
            assert isinstance(worker, WorkerProcess)
            self._hear(worker, ended)
        now = time.monotonic()
        for worker in [w for w, deadline in self._starting.items() if deadline < now]:
            self._lose(worker, ended, f"did not start within {_START_LIMIT:g} s")
        for worker in [w for w, (_, deadline) in self._busy.items() if deadline < now]:
            self._lose(worker, ended, "")

    def _hear(self, worker: WorkerProcess, ended: Callable[[Task, wire.Reply, str], None]) -> None:
        try:
            messages = worker.receive()
        except Exception as exc:  # noqa: BLE001  (unpickling runs foreign code)
            self._lose(worker, ended, f"sent what cannot be read ({type(exc).__name__}: {exc})")
            return
        if messages is None:
            self._lose(worker, ended, None)
            return
        for message in messages:
            if isinstance(message, wire.Ready):
                self._starting.pop(worker, None)
                self._idle.append(worker)
            elif isinstance(message, wire.Waiting) and worker in self._busy:
                task, deadline = self._busy[worker]
                self._busy[worker] = (task, deadline + task.limit)
            elif isinstance(message, wire.Reply) and worker in self._busy:
                task, _ = self._busy.pop(worker)
                if isinstance(message.result, CompileError) and message.result.overtime:
                    # The tool was killed, the processes that it had started were not.
                    _, printed = self._end(worker, "")
                    if not self._divide(task):
                        ended(task, message, printed)
                    return
                self._idle.append(worker)
                ended(
                    task,
                    message,
                    worker.printed() if isinstance(message.result, TilecError) else "",
                )

    def _lose(
        self,
        worker: WorkerProcess,
        ended: Callable[[Task, wire.Reply, str], None],
        death: str | None,
    ) -> None:
        """Give up a worker: its task, if it has one, fails; `death` is empty where its time was
        over, None where it has to be found out.
        """
        death, printed = self._end(worker, death)
        if worker in self._busy:
            task, _ = self._busy.pop(worker)
            error = _crash(task, death, printed) if death else _overtime(task, printed)
            if not self._divide(task):
                ended(task, wire.Reply(result=error), printed)
        elif worker in self._starting:
            del self._starting[worker]
            self._too_few(
                f"a worker process {death} before it could do anything:\n{printed.strip()}", None
            )
        else:
            self._idle.remove(worker)

    def _end(self, worker: WorkerProcess, death: str | None) -> tuple[str, str]:
        """Kill a worker with its children; return how it died, which None for `death` finds out,
        and what it printed.
        """
        self._selector.unregister(worker)
        self._last.pop(worker, None)
        death = worker.death() if death is None else death
        worker.kill()
        printed = worker.printed()
        worker.log.unlink(missing_ok=True)
        return death, printed

    def _divide(self, task: Task) -> bool:
        """Do what a task has `instead`, if it has, and the like for those that wait for the same
        work.
        """
        if task.instead is None:
            return False
        rest = [
            other.instead or other if other.affinity == task.affinity else other
            for other in self._waiting
        ]
        self._waiting.clear()
        self._waiting.extend([task.instead, *rest])
        return True


def _overtime(task: Task, printed: str) -> CompileError:
    doing = "reading" if isinstance(task.request, wire.Declare) else "compiling"
    what = f"{task.subject}: {doing} it did not end within {task.limit:g} s"
    return CompileError(
        what,
        cause=task.slow,
        fix=task.raise_limit,
        log=printed,
        kernel=task.kernel,
        target=task.target,
        overtime=True,
    )


def _crash(task: Task, death: str, printed: str) -> CompileError:
    reading = isinstance(task.request, wire.Declare)
    silent = (
        "it said nothing: look for os._exit and extension modules in what the source imports"
        if reading
        else "report it with its source"
    )
    cause = (
        "code of the source ends or crashes its process when it is imported"
        if reading
        else "a bug in the compiler"
    )
    fix = "its last words are in the log" if printed.strip() else silent
    if "SIGKILL" in death:
        cause, fix = (
            "the machine ran out of memory",
            "run fewer jobs at once (`-j`), or make the tile smaller",
        )
    what = f"{task.subject}: the process that {'reads' if reading else 'compiles'} it {death}"
    return CompileError(
        what, cause=cause, fix=fix, log=printed, kernel=task.kernel, target=task.target
    )
