"""The part of a build that runs on the workers of a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import importlib.metadata
import os
import platform
import shutil
import socket
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

from distributed import Scheduler, Worker, WorkerPlugin, get_worker

from tilec import __version__
from tilec.compile.cluster.parcels import (
    Delivery,
    Joined,
    Supplies,
    Tree,
    Unit,
    differences,
    is_intact,
    pack,
    unpack,
    write_tree,
)
from tilec.compile.cluster.uploads import Uploads
from tilec.compile.events import Done
from tilec.compile.pool import ask, wait_until_ready
from tilec.compile.process import WorkerProcess
from tilec.compile.worker import Compile, Identify, Identity, Reply, Setup
from tilec.frontends.base import ToolSearch
from tilec_runtime.errors import OutputError, TilecError

_IDLE = 120.0  # seconds after which an idle worker process is ended
_IDENTIFY_LIMIT = 300.0  # seconds to hash all tools on a slow disk
# By worker address: a Dask worker compiles one job at a time for all its threads and builds.
_one_at_a_time: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


async def join(build: str, supplies: bytes, dask_worker: Worker) -> Joined:
    """Prepare a worker for a build.

    Args:
        build: name of the build.
        supplies: packed `Supplies`, in addition to earlier ones.
        dask_worker: the worker.
    """
    seat = dask_worker.plugins.get(build)
    if not isinstance(seat, Seat):
        seat = Seat(build, Path(dask_worker.local_directory))
        await dask_worker.plugin_add(seat, name=build)
    differences = await asyncio.to_thread(seat.prepare, unpack(supplies, Supplies))
    return Joined(place=place_of(dask_worker.address), differences=differences)


async def leave(build: str, dask_worker: Worker) -> None:
    """End a worker's part of a build, and remove its files."""
    if build in dask_worker.plugins:
        await dask_worker.plugin_remove(build)


def workers_of(dask_scheduler: Scheduler) -> dict[str, tuple[int, float]]:
    """Return threads, and seconds since the last heartbeat, of each worker by address."""
    now = time.time()
    workers = dask_scheduler.workers.values()
    return {worker.address: (worker.nthreads, now - worker.last_seen) for worker in workers}


def work(build: str, unit: bytes) -> bytes:
    """Run a unit and return the packed `Delivery`; Dask calls it as a task."""
    worker = get_worker()
    seat = worker.plugins.get(build)
    if not isinstance(seat, Seat):
        address = worker.address
        return pack(Delivery(address=address, place=place_of(address), absent=True))
    return pack(seat.deliver(unpack(unit, Unit), worker))


def place_of(address: str) -> str:
    """Return the name of this worker in messages."""
    return f"{socket.gethostname()} ({address})"


def versions() -> dict[str, str]:
    """Return the versions in which a worker must agree with the build."""
    return {
        "tilec": __version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "distributed": importlib.metadata.version("distributed"),
    }


class Seat(WorkerPlugin):
    """A build's plugin at a Dask worker, with a worker process that compiles.

    Nannies start Dask workers as daemons, which must not have children of multiprocessing. The
    process is therefore started by `subprocess`. It ends with the Dask worker, for any reason.

    Args:
        build: name of the build and of the plugin.
        folder: directory for the Dask worker's files.
    """

    def __init__(self, build: str, folder: Path) -> None:
        self._build = build
        self._folder = Path(tempfile.mkdtemp(prefix="tilec-", dir=folder))
        # Digests of tools are kept for later builds.
        self._state = folder / "tilec-state"
        self._using = threading.Lock()
        self._process: WorkerProcess | None = None
        self._rest: threading.Timer | None = None
        self._closed = False
        self._supplies: Supplies | None = None
        self._trees: dict[str, Tree] = {}
        self._files: dict[str, bytes] = {}
        self._uploads: Uploads | None = None

    def teardown(self, worker: Worker) -> None:  # noqa: ARG002 - Dask's signature
        """Kill the process, even while it compiles, and remove all files."""
        self._closed = True
        self._wake()
        if self._process:
            self._process.kill()
        if self._uploads:
            self._uploads.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def prepare(self, supplies: Supplies) -> tuple[str, ...]:
        """Store the build's files; return the differences of versions and tools."""
        with self._using:
            self._supplies = supplies
            self._trees.update(supplies.trees)
            self._files.update(supplies.files)
            if self._uploads is None:
                self._uploads = Uploads(supplies.remote, os.environ)
            try:
                return tuple(differences(supplies.wanted, self._identity(supplies)))
            except TilecError as error:
                return (str(error),)
            except OSError as error:
                return (f"its disk cannot be used: {error}",)

    def _identity(self, supplies: Supplies) -> Identity:
        sources = [
            (tree.language, dataclasses.replace(tree.source, root=str(self._root(digest))))
            for digest, tree in supplies.trees.items()
            if len(tree.project_files) < len(tree.files)
        ]
        request = Identify(languages=tuple(supplies.wanted.tools), sources=tuple(sources))
        result = ask(self._live(), request, limit=_IDENTIFY_LIMIT).result
        if isinstance(result, TilecError):
            raise result
        assert isinstance(result, Identity)
        return dataclasses.replace(result, versions=versions())

    def deliver(self, unit: Unit, worker: Worker) -> Delivery:
        """Run the requests of a unit in order."""
        address = worker.address
        delivery = Delivery(address=address, place=place_of(address))
        with _one_at_a_time[address], self._using:
            self._wake()
            replies: list[Reply] = []
            images: dict[str, bytes] = {}
            unshared = ""
            try:
                root = self._root(unit.tree)
                for index, request in enumerate(unit.requests):
                    worker.log_event(self._build, [unit.number, index, address])
                    moved = _moved(request, str(root))
                    reply = ask(self._live(), moved, limit=unit.limit, grace=unit.grace)
                    unshared = self._collect(request, reply, images, unit.as_bytes) or unshared
                    replies.append(_with_root(reply, str(root), request.job.spec.source.root))
                    if reply.lost:
                        break
                broken = self._disk_trouble(replies, unit.tree)
            except (OSError, OutputError, KeyError) as error:
                broken = f"its disk cannot be used: {error}"
            except TilecError as error:
                broken = str(error)
            finally:
                self._rest_later()
        if broken:
            return dataclasses.replace(delivery, broken=broken)
        return dataclasses.replace(
            delivery, replies=tuple(replies), images=images, unshared=unshared
        )

    def _collect(
        self, request: Compile, reply: Reply, images: dict[str, bytes], as_bytes: bool
    ) -> str:
        """Move an image from the disk to the remote cache, or else into `images`.

        Return why it is not in the remote cache; empty if it is, or should not be.

        Raises:
            OSError: the image is missing.
        """
        if not isinstance(reply.result, Done):
            return ""
        done = reply.result
        data = Path(done.blob.path).read_bytes()
        Path(done.blob.path).unlink()
        assert self._uploads is not None
        if request.cacheable and not as_bytes and self._uploads.put(request.key, done, data):
            return ""
        images[done.blob.digest] = data
        return self._uploads.fault

    def _disk_trouble(self, replies: list[Reply], tree: str) -> str:
        """Return the disk's problem if it may have caused a failure; empty for none."""
        errors = [reply.result for reply in replies if isinstance(reply.result, TilecError)]
        if not errors:
            return ""
        for error in errors:
            full = os.strerror(errno.ENOSPC)
            if isinstance(error, OutputError) or full in f"{error}{getattr(error, 'log', '')}":
                return f"its disk cannot be used: {error}"
        if not is_intact(self._root(tree, write=False), self._trees[tree]):
            shutil.rmtree(self._root(tree, write=False), ignore_errors=True)
            return "its disk lost files of the project"
        return ""

    def _root(self, digest: str, *, write: bool = True) -> Path:
        """Return the directory of a tree; write it if it is missing.

        Raises:
            OSError: the directory cannot be written.
        """
        root = self._folder / digest[:16]
        if write and not root.is_dir():
            new = Path(tempfile.mkdtemp(dir=self._folder))
            write_tree(new, self._trees[digest], self._files)
            new.rename(root)
        return root

    def _live(self) -> WorkerProcess:
        """Return the worker process; start it if none is running.

        Raises:
            OSError, ToolchainError: the process cannot be started.
        """
        if self._process and not self._process.running:
            self._process.kill()
            self._process = None
        if self._process is None:
            assert self._supplies is not None
            spool = self._folder / "spool"
            spool.mkdir(exist_ok=True)
            self._state.mkdir(exist_ok=True, mode=0o700)
            search = ToolSearch(
                prefer=self._supplies.prefer,
                cuda=self._supplies.cuda,
                cuda_home=os.environ.get("CUDA_HOME", "") or os.environ.get("CUDA_PATH", ""),
                path=os.environ.get("PATH", ""),
                state_dir=str(self._state),
            )
            setup = Setup(
                frontends=self._supplies.frontends,
                search=search,
                cache_root="",
                spool=str(spool),
            )
            process = WorkerProcess(setup, log=spool / "worker.log", environ=os.environ)
            self._process = process
            if self._closed:
                process.kill()
            wait_until_ready(process)
        return self._process

    def _rest_later(self) -> None:
        """Start the timer that ends an idle process: a dead build never calls `leave`."""
        self._rest = threading.Timer(_IDLE, self._end_if_idle)
        self._rest.daemon = True
        self._rest.start()

    def _wake(self) -> None:
        if self._rest:
            self._rest.cancel()

    def _end_if_idle(self) -> None:
        with contextlib.ExitStack() as stack:
            if self._using.acquire(blocking=False):
                stack.callback(self._using.release)
                if self._process:
                    self._process.kill()


def _moved(request: Compile, root: str) -> Compile:
    """Return a request with another root of its source."""
    job = request.job
    source = dataclasses.replace(job.spec.source, root=root)
    return dataclasses.replace(
        request,
        job=dataclasses.replace(job, spec=dataclasses.replace(job.spec, source=source)),
    )


def _with_root(reply: Reply, here: str, there: str) -> Reply:
    """Return a reply with the build's project directory in its texts."""
    if isinstance(reply.result, TilecError):
        for name, value in vars(reply.result).items():
            if isinstance(value, str):
                setattr(reply.result, name, value.replace(here, there))
    return dataclasses.replace(reply, printed=reply.printed.replace(here, there))
