"""What a worker of a cluster does for a build: runs on the workers alone."""

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
from collections import defaultdict
from pathlib import Path

from distributed import Worker, WorkerPlugin, get_worker

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
from tilec.compile.pool import Answer, Lost, ask, wait_until_ready
from tilec.compile.process import WorkerProcess
from tilec.compile.worker import Compile, Identify, Identity, Setup
from tilec.frontends.base import ToolSearch
from tilec_runtime.errors import CompileError, OutputError, TilecError

_IDLE = 120.0  # seconds after which the compilers that a build left behind are ended
_IDENTIFY_LIMIT = 300.0  # seconds to digest all tools, on a slow disk
# By address: a Dask worker compiles one job at a time, however many threads and builds it has.
_one_at_a_time: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


async def join(build: str, supplies: bytes, dask_worker: Worker) -> Joined:
    """Prepare a worker for a build.

    Args:
        build: the build's name.
        supplies: packed `Supplies`; what it got before stays.
        dask_worker: the worker.
    """
    seat = dask_worker.plugins.get(build)
    if not isinstance(seat, Seat):
        seat = Seat(build, Path(dask_worker.local_directory))
        await dask_worker.plugin_add(seat, name=build)
    differences = await asyncio.to_thread(seat.prepare, unpack(supplies, Supplies))
    return Joined(place=place_of(dask_worker.address), differences=differences)


async def leave(build: str, dask_worker: Worker) -> None:
    """End what a worker does for a build, and remove what it keeps for it."""
    if build in dask_worker.plugins:
        await dask_worker.plugin_remove(build)


def work(build: str, unit: bytes) -> bytes:
    """Do a unit; return the packed `Delivery`. A task of Dask."""
    worker = get_worker()
    seat = worker.plugins.get(build)
    if not isinstance(seat, Seat):
        address = worker.address
        return pack(Delivery(address=address, place=place_of(address), absent=True))
    return pack(seat.deliver(unpack(unit, Unit), worker))


def place_of(address: str) -> str:
    """Return how messages call this worker."""
    return f"{socket.gethostname()} ({address})"


def versions() -> dict[str, str]:
    """Return versions that a worker shares with the build."""
    return {
        "tilec": __version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "distributed": importlib.metadata.version("distributed"),
    }


class Seat(WorkerPlugin):
    """A build's place at a Dask worker, with the process that compiles.

    Nannies start their workers as daemons, which may have no children of multiprocessing's: the
    process is one of `subprocess`. It ends with the Dask worker, whatever ends that.

    Args:
        build: the build's name, which is also the plugin's.
        folder: where the Dask worker keeps its files.
    """

    def __init__(self, build: str, folder: Path) -> None:
        self._build = build
        self._folder = Path(tempfile.mkdtemp(prefix="tilec-", dir=folder))
        # Digests of tools stay from build to build.
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
        """Kill the process, also one that compiles, and remove all files."""
        self._closed = True
        self._wake()
        if self._process:
            self._process.kill()
        if self._uploads:
            self._uploads.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def prepare(self, supplies: Supplies) -> tuple[str, ...]:
        """Take what the build sends, and compare versions and tools."""
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
        answer = ask(self._live(), request, limit=_IDENTIFY_LIMIT)
        if isinstance(answer.reply, Lost):
            died = answer.reply.death or f"did not end within {_IDENTIFY_LIMIT:g} s"
            raise CompileError(f"the process that looks at its tools {died}\n{answer.printed}")
        result = answer.reply.result
        if isinstance(result, TilecError):
            raise result
        assert isinstance(result, Identity)
        return dataclasses.replace(result, versions=versions())

    def deliver(self, unit: Unit, worker: Worker) -> Delivery:
        """Do a unit's requests, one after another."""
        address = worker.address
        delivery = Delivery(address=address, place=place_of(address))
        with _one_at_a_time[address], self._using:
            self._wake()
            answers: list[Answer] = []
            images: dict[str, bytes] = {}
            unshared = ""
            try:
                root = self._root(unit.tree)
                for index, request in enumerate(unit.requests):
                    worker.log_event(self._build, [unit.number, index, address])
                    limit = unit.limit + unit.grace
                    answer = ask(self._live(), _moved(request, str(root)), limit=limit)
                    unshared = self._collect(request, answer, images, unit.as_bytes) or unshared
                    answers.append(_with_root(answer, str(root), request.job.spec.source.root))
                    if answer.lost:
                        break
                broken = self._disk_trouble(answers, unit.tree)
            except (OSError, OutputError, KeyError) as error:
                broken = f"its disk cannot be used: {error}"
            except TilecError as error:
                broken = str(error)
            finally:
                self._rest_later()
        if broken:
            return dataclasses.replace(delivery, broken=broken)
        return dataclasses.replace(
            delivery, answers=tuple(answers), images=images, unshared=unshared
        )

    def _collect(
        self, request: Compile, answer: Answer, images: dict[str, bytes], as_bytes: bool
    ) -> str:
        """Take an image off the disk, into the remote cache or else into `images`.

        Returns why it is not in the remote cache; empty where it is, or is not to be.

        Raises:
            OSError: it is gone.
        """
        if isinstance(answer.reply, Lost) or not isinstance(answer.reply.result, Done):
            return ""
        done = answer.reply.result
        data = Path(done.blob.path).read_bytes()
        Path(done.blob.path).unlink()
        assert self._uploads is not None
        if request.cacheable and not as_bytes and self._uploads.put(request.key, done, data):
            return ""
        images[done.blob.digest] = data
        return self._uploads.fault

    def _disk_trouble(self, answers: list[Answer], tree: str) -> str:
        """Return what is wrong with the disk, if that may be behind a failed request."""
        if not any(isinstance(answer.reply, Lost) or _failed(answer) for answer in answers):
            return ""
        errors = [answer.reply.result for answer in answers if not isinstance(answer.reply, Lost)]
        for error in errors:
            full = os.strerror(errno.ENOSPC)
            if isinstance(error, OutputError) or full in f"{error}{getattr(error, 'log', '')}":
                return f"its disk cannot be used: {error}"
        if not is_intact(self._root(tree, write=False), self._trees[tree]):
            shutil.rmtree(self._root(tree, write=False), ignore_errors=True)
            return "its disk lost files of the project"
        return ""

    def _root(self, digest: str, *, write: bool = True) -> Path:
        """Return the directory of a tree, and write it if it is not there.

        Raises:
            OSError: it cannot be written.
        """
        root = self._folder / digest[:16]
        if write and not root.is_dir():
            new = Path(tempfile.mkdtemp(dir=self._folder))
            write_tree(new, self._trees[digest], self._files)
            new.rename(root)
        return root

    def _live(self) -> WorkerProcess:
        """Return the process, started if need be.

        Raises:
            OSError, ToolchainError: it cannot be started.
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
        """End an idle process after a while: its build may be dead and never call `leave`."""
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


def _failed(answer: Answer) -> bool:
    return not isinstance(answer.reply, Lost) and isinstance(answer.reply.result, TilecError)


def _moved(request: Compile, root: str) -> Compile:
    """Return a request whose source lies elsewhere."""
    job = request.job
    source = dataclasses.replace(job.spec.source, root=root)
    return dataclasses.replace(
        request,
        job=dataclasses.replace(job, spec=dataclasses.replace(job.spec, source=source)),
    )


def _with_root(answer: Answer, here: str, there: str) -> Answer:
    """Return an answer whose texts name the project's directory as the build knows it."""
    if not isinstance(answer.reply, Lost) and isinstance(answer.reply.result, TilecError):
        error = answer.reply.result
        for name, value in vars(error).items():
            if isinstance(value, str):
                setattr(error, name, value.replace(here, there))
    return dataclasses.replace(answer, printed=answer.printed.replace(here, there))
