"""A pool that runs tasks on the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import collections
import logging
import threading
import uuid
import warnings
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from types import ModuleType

from distributed import Client, KilledWorker
from distributed import Future as DaskFuture
from distributed.client import FutureCancelledError
from distributed.versions import VersionMismatchWarning, get_versions

from tilec.compile.cluster import member
from tilec.compile.cluster.attempts import Entry, where_tried
from tilec.compile.cluster.crew import Crew, version_differences
from tilec.compile.cluster.parcels import Delivery, Tree, Unit, pack, unpack
from tilec.compile.cluster.results import Results
from tilec.compile.losses import lost
from tilec.compile.pool import Replies, Task
from tilec.compile.remote.session import RemoteCache
from tilec.compile.remote.store import RemoteError
from tilec.compile.worker import Compile, Reply, Request, Setup, changed
from tilec_runtime.errors import MissingError, TilecError

MOVES = 3  # times that a lost task moves to another worker
_CONNECT = 8.0  # seconds to reach the scheduler
_LOOK = 1.0  # seconds between two checks of the cluster's workers
_SILENT = 30.0  # seconds without an answer after which a scheduler or worker counts as gone
_CLOSE = 5.0  # seconds to end the build on the workers
# Tasks per worker at the scheduler: one that runs, and one that waits.
_AHEAD = 2
_BEAT = 0.02  # seconds to collect results, which are then fetched in one request
_CUT = "scheduler-connection-lost"  # Dask's reason for cancelling tasks of a lost scheduler
_DIED = "was lost with its worker each time"


class DaskPool:
    """Pool that runs tasks on Dask workers; each worker compiles one job at a time.

    One thread with an event loop does all of it. The scheduler gets only as many tasks as keep the
    workers busy; the others wait here in order.

    Args:
        address: address of the scheduler, such as `tcp://host:8786`.
        setup: setup as for worker processes; images go to its cache, or else to its spool.
        grace: seconds after a task's limit until its process is killed.
        on_start: called in the pool's thread when a worker begins a request.
        note: gets texts for the user, in the pool's thread.
        seat: module that workers import, such as `member`.
        remote: the build's remote cache, or None.
    """

    def __init__(
        self,
        address: str,
        *,
        setup: Setup,
        grace: float,
        on_start: Callable[[Request], None],
        note: Callable[[str], None],
        seat: ModuleType = member,
        remote: RemoteCache | None = None,
    ) -> None:
        self._address, self._grace = address, grace
        self._on_start, self._seat = on_start, seat
        self._build = f"tilec-{uuid.uuid4().hex[:16]}"
        url = remote.url_for_workers if remote else ""
        self._results = Results(setup, note, remote if url else None)
        self._crew = Crew(self._build, setup, note=note, seat=seat, remote=url)
        self._client: Client | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._error: MissingError | None = None
        self._count = 0
        self._waiting: collections.deque[Entry] = collections.deque()
        self._running: dict[int, Entry] = {}
        self._filling: asyncio.Handle | None = None
        self._beat: asyncio.Event | None = None
        self._joins: set[asyncio.Task[None]] = set()
        self._closing = False
        self._loop = asyncio.new_event_loop()
        self._woken = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    # --- for the thread of the build

    def submit(self, task: Task) -> Future[Replies]:
        """Queue a task; tasks start in this order.

        The future's exception is a MissingError if the cluster cannot do any task.
        """
        future: Future[Replies] = Future()
        self._loop.call_soon_threadsafe(self._add, task, future)
        return future

    def close(self) -> None:
        """Cancel running tasks, on the workers too. Their futures stay unfinished."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end)
            self._thread.join()

    # --- the loop

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        # Do not print failures of Dask's internal tasks when workers die.
        self._loop.set_exception_handler(lambda *_: None)
        try:
            self._loop.run_until_complete(self._main())
        finally:
            self._loop.close()

    async def _main(self) -> None:
        try:
            self._connecting = self._loop.create_task(self._connect())
            if self._closing:
                self._connecting.cancel()
            await self._connecting
            await self._look_after()
        except asyncio.CancelledError:
            pass  # closed while it connected
        except MissingError as error:
            self._give_up(error)
        except Exception as error:  # noqa: BLE001 - without a result the build would hang
            self._give_up(self._gone(f"{type(error).__name__}: {error}"))
        await self._leave()
        while not self._closing:  # later tasks get the error too
            await self._wait(None)

    async def _wait(self, seconds: float | None) -> None:
        try:
            await asyncio.wait_for(self._woken.wait(), seconds)
        except asyncio.TimeoutError:
            return
        self._woken.clear()

    def _end(self) -> None:
        self._closing = True
        self._woken.set()
        if self._connecting:
            self._connecting.cancel()

    async def _connect(self) -> None:
        """Connect to the scheduler.

        Raises:
            MissingError: the scheduler cannot be reached, or has another version.
        """
        # This pool reports problems of the cluster itself.
        for name in ("", ".client", ".comm", ".core", ".utils", ".batched"):
            logging.getLogger(f"distributed{name}").setLevel(logging.CRITICAL)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", VersionMismatchWarning)
                self._client = Client(
                    self._address,
                    asynchronous=True,
                    timeout=_CONNECT,
                    set_as_default=False,
                    name="tilec",
                )
                # The client's limit does not cover a server that accepts connections and is silent.
                await asyncio.wait_for(self._client, _CONNECT + 1)
            # The client's own method also asks all workers, and waits for a frozen one.
            versions = self._client.run_on_scheduler(get_versions, packages=["tilec"])
            known = await asyncio.wait_for(versions, _SILENT)
        except Exception as error:
            raise MissingError(
                f"the scheduler {self._address} cannot be reached: {str(error) or type(error).__name__}",
                cause="it does not run, or a firewall or another kind of address is in between",
                fix="start it (`dask scheduler`), or build with `--fallback local`",
            ) from error
        other = version_differences(known["packages"])
        if other:
            raise MissingError(
                f"the scheduler {self._address} has other versions: {'; '.join(other)}",
                cause="it was started in another environment than this build",
                fix="install the same versions for build, scheduler and workers",
            )
        self._client.subscribe_topic(self._build, self._hear)

    async def _look_after(self) -> None:
        """Let new workers join and check running tasks until the pool is closed.

        Raises:
            MissingError: the scheduler is lost, or no worker can take part.
        """
        assert self._client is not None
        while not self._closing:
            try:
                workers = self._client.run_on_scheduler(member.workers_of)
                seen = await asyncio.wait_for(workers, _SILENT)
            except (OSError, asyncio.TimeoutError) as error:
                raise self._gone(str(error) or "it does not answer") from error
            if self._client.status != "running":
                raise self._gone("the connection was closed")
            for address, (_, silence) in seen.items():
                if silence > _SILENT and self._crew.leave_out(
                    address, f"{address}: it went silent"
                ):
                    self._leave_silent(address)
            living = {address: threads for address, (threads, _) in seen.items()}
            for has, addresses in self._crew.meet(living, self._loop.time()):
                self._start_join(self._crew.join(self._client, has, addresses))
            for entry in [*self._running.values()]:
                self._check(entry, living)
            await self._wait(_LOOK)
            if self._error:
                raise self._error

    def _check(self, entry: Entry, living: Mapping[str, int]) -> None:
        """Record workers that died with a task, which Dask itself gives to others."""
        for address in [one for one in entry.begun if one not in living]:
            entry.begun.remove(address)
            entry.lost(address)
        # Dask may have given the task to a worker that came later and has begun it.
        if not entry.begun and not entry.allowed & living.keys():
            if not entry.tried & entry.allowed:
                entry.lost(min(entry.allowed))  # the message of its start may be lost too
            self._move(entry, _DIED)
        elif len(entry.places) > MOVES:
            self._lose(entry, _DIED)

    def _start_join(self, join: Awaitable[None]) -> None:
        async def run() -> None:
            await join
            self._woken.set()  # there may be new files to send
            self._fill_soon()

        task = self._loop.create_task(run())
        self._joins.add(task)
        task.add_done_callback(self._joins.discard)

    def _stop(self, error: MissingError) -> None:
        """End the build's use of the cluster."""
        self._error = self._error or error
        self._woken.set()

    def _gone(self, why: str) -> MissingError:
        return MissingError(
            f"the scheduler {self._address} went away while the build was running: {why}",
            cause="it was stopped, or the connection to it broke",
            fix="build again: what was compiled is kept; `--fallback local` compiles the rest here",
        )

    def _give_up(self, error: MissingError) -> None:
        self._error = error
        entries = [*self._running.values(), *self._waiting]
        self._waiting.clear()
        for entry in entries:
            self._fail(entry, error)

    async def _leave(self) -> None:
        for entry in self._running.values():
            entry.stop()
        for task in self._joins:
            task.cancel()
        client = self._client
        if client is None:
            return
        try:
            if client.status == "running":
                leave = client.run(self._seat.leave, self._build, on_error="ignore")
                await asyncio.wait_for(leave, _CLOSE)
        except (OSError, asyncio.TimeoutError):
            pass  # the workers end their idle processes themselves
        finally:
            await client.close(timeout=1)

    # --- tasks

    def _add(self, task: Task, future: Future[Replies]) -> None:
        if self._error:
            future.set_exception(self._error)
            return
        (first, *_) = (one for one in task.requests if isinstance(one, Compile))
        spec = first.job.spec
        tree = Tree(
            language=spec.language, source=spec.source, files=task.files, inputs=first.inputs
        )
        if self._crew.require(tree, task.tools):
            self._woken.set()
        self._count += 1
        self._waiting.append(Entry(self._count, task, future, tree.digest))
        self._fill_soon()

    def _fill_soon(self) -> None:
        if self._filling is None and not self._error:
            self._filling = self._loop.call_soon(self._fill)

    def _fill(self) -> None:
        """Send the scheduler as many tasks as keep the workers busy."""
        self._filling = None
        room = len(self._crew) * _AHEAD - len(self._running)
        passed: list[Entry] = []
        together: dict[frozenset[str], list[Entry]] = {}
        while room > 0 and self._waiting:
            entry = self._waiting.popleft()
            able = self._crew.with_tree(entry.tree)
            if not able:
                passed.append(entry)
            elif entry.tree in self._crew.changed:
                reply = Reply(result=changed(entry.requests[0].job))
                self._finish(entry, (reply,) * len(entry.requests))
            else:
                room -= 1
                entry.allowed = able - entry.tried or able
                together.setdefault(frozenset(entry.allowed), []).append(entry)
        self._waiting.extendleft(reversed(passed))
        for allowed, entries in together.items():
            self._send(allowed, entries)

    def _send(self, allowed: frozenset[str], entries: list[Entry]) -> None:
        """Send tasks for the same workers to the scheduler in one message."""
        assert self._client is not None
        units = []
        for entry in entries:
            entry.attempts += 1
            self._running[entry.number] = entry
            unit = Unit(
                number=entry.number,
                requests=entry.requests,
                tree=entry.tree,
                limit=entry.task.limit,
                grace=self._grace,
                as_bytes=self._results.as_bytes,
            )
            units.append(pack(unit))
        try:
            remotes = self._client.map(
                self._seat.work,
                [self._build] * len(entries),
                units,
                key=[f"{self._build}-{entry.number}-{entry.attempts}" for entry in entries],
                # Worker names raise the scheduler's cost of a task by half.
                workers=None if self._crew.is_everyone(allowed) else [*allowed],
                pure=False,
            )
        except Exception as error:  # noqa: BLE001 - for example, the client was closed meanwhile
            self._stop(self._gone(str(error)))
            return
        for entry, remote in zip(entries, remotes, strict=True):
            entry.job = self._loop.create_task(self._attempt(entry, remote))

    async def _attempt(self, entry: Entry, remote: DaskFuture[bytes]) -> None:
        """Wait for a task and process its result."""
        try:
            if await remote.exception() is None:
                entry.rest()  # a worker that dies now does not count as lost by the task
            await self._next_beat()
            # One request fetches results of several tasks: cancelling this task must not cancel it.
            delivery = unpack(await asyncio.shield(remote), Delivery)
        except KilledWorker as error:
            entry.lost(error.last_worker.address)
            self._lose(entry, _DIED)
        except Exception as error:  # noqa: BLE001 - the worker's environment may raise anything
            cut = isinstance(error, FutureCancelledError) and error.reason == _CUT
            if cut or self._client is None or self._client.status != "running":
                self._stop(self._gone("the connection was closed"))
                return
            entry.lost(entry.begun[-1] if entry.begun else "", "a worker")
            self._move(entry, f"could not be started: {type(error).__name__}: {error}")
        else:
            await self._take(entry, delivery)
        self._fill_soon()

    async def _next_beat(self) -> None:
        """Wait a moment, so that the client fetches several results in one request."""
        if self._beat is None or self._beat.is_set():
            self._beat = asyncio.Event()
            self._loop.call_later(_BEAT, self._beat.set)
        await self._beat.wait()

    async def _take(self, entry: Entry, delivery: Delivery) -> None:
        if delivery.absent:
            self._crew.forget(delivery.address)
            self._woken.set()
            self._again(entry)
            return
        broken = delivery.broken
        replies: Replies = ()
        if not broken:
            try:
                replies = await self._results.take(entry.requests, delivery)
            except RemoteError:
                self._again(entry)
                return
            except ValueError as error:
                broken = f"it sent a result that cannot be used: {error}"
            except Exception as error:  # noqa: BLE001 - without a result the build would hang
                self._fail(entry, error)
                return
        if broken:
            self._crew.leave_out(delivery.address, f"{delivery.place}: {broken}")
            entry.lost(delivery.address, delivery.place)
            self._move(entry, f"failed: {broken}")
            return
        if replies[-1].lost:
            entry.lost(delivery.address, delivery.place)
            if not entry.requests[0].in_group and len(entry.places) <= MOVES:
                self._again(entry)
                return
            _name_places(replies[-1], entry)
        self._finish(entry, replies)

    def _hear(self, event: tuple[float, tuple[int, int, str]]) -> None:
        """Process a worker's message that it has begun a request."""
        number, index, address = event[1]
        entry = self._running.get(number)
        if entry is None:
            return
        entry.begun = [*(one for one in entry.begun if one != address), address]
        self._on_start(entry.requests[index])

    def _leave_silent(self, address: str) -> None:
        """Move the tasks that a silent worker has begun, or may have in its queue."""
        for entry in [*self._running.values()]:
            if address in entry.begun:
                entry.lost(address)
                self._move(entry, "was lost with workers of the cluster that went silent")
            elif not entry.begun and address in entry.allowed:
                self._again(entry)

    def _again(self, entry: Entry) -> None:
        """Put a task at the front of the queue."""
        self._running.pop(entry.number, None)
        entry.stop()
        self._waiting.appendleft(entry)
        self._fill_soon()

    def _move(self, entry: Entry, death: str) -> None:
        """Move a task to another worker, unless it has moved too often."""
        if len(entry.places) > MOVES:
            self._lose(entry, death)
        else:
            self._again(entry)

    def _lose(self, entry: Entry, death: str) -> None:
        error = lost(entry.requests[0], death, entry.task.limit, "")
        reply = Reply(result=error, lost=True)
        _name_places(reply, entry)
        self._finish(entry, (reply,))

    def _finish(self, entry: Entry, replies: Replies) -> None:
        self._running.pop(entry.number, None)
        entry.stop()
        entry.future.set_result(replies)

    def _fail(self, entry: Entry, error: Exception) -> None:
        self._running.pop(entry.number, None)
        entry.stop()
        entry.future.set_exception(error)


def _name_places(reply: Reply, entry: Entry) -> None:
    """Add the workers that lost a task to the task's error."""
    assert isinstance(reply.result, TilecError)
    reply.result.what += where_tried(entry.places)
