"""How a build scales with the workers of a Dask cluster: recorded job times, replayed by sleeping.

The times are those of `tile_build.py` that lie between 0.1 and 2 s (0.49 s in the mean), and beside
them as many that are spread evenly over that range (1.05 s). Scheduler, workers and build have a process
each; a worker is a thread that sleeps and returns an image of the recorded size. Each number of
workers gets as much work for each of them, so that 64 workers get `--tasks` jobs. The same sleeps
given to `Client.submit` at once show what Dask itself takes, and jobs that take no time show how
many the pool can do in a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import multiprocessing
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import dask
import distributed
import psutil
import replay_seat
from common import RESULTS, options, save

from tilec.compile.cluster.pool import DaskPool
from tilec.compile.events import Done
from tilec.compile.pool import Task
from tilec.compile.worker import Compile, Setup
from tilec.frontends.base import ToolSearch
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, KernelSpec, Source, Variant
from tilec_runtime.errors import Location
from tilec_runtime.model.arch import Target

SHORTEST, LONGEST = 0.1, 2.0
WORKERS = (1, 2, 4, 8, 16, 32, 64)
BYTES = 38 << 10  # mean of an image of the examples
SEED = 17
_PROCESSES = multiprocessing.get_context("spawn")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """Jobs on a cluster.

    Attributes:
        workers, jobs: how many.
        work: seconds of all jobs.
        wall: seconds from the first submit to the last result.
        cpu: processor seconds of scheduler, workers and build.
        moved: bytes that passed between them.
    """

    workers: int
    jobs: int
    work: float
    wall: float
    cpu: dict[str, float]
    moved: int

    @property
    def efficiency(self) -> float:
        """Share of the time in which workers did their jobs."""
        return self.work / self.workers / self.wall

    @property
    def text(self) -> str:
        """Efficiency and costs."""
        return f"efficiency {self.efficiency:.3f}, ms of processor a job: {self.shares}"

    @property
    def rate(self) -> float:
        """Jobs in a second."""
        return self.jobs / self.wall

    @property
    def kib(self) -> float:
        """KiB that were moved for a job."""
        return self.moved / self.jobs / 1024

    @property
    def shares(self) -> str:
        """Milliseconds of processor that each process took for a job."""
        return ", ".join(
            f"{name} {value / self.jobs * 1e3:.1f}" for name, value in self.cpu.items()
        )


def main() -> None:
    """Measure and save."""
    parser = options(__doc__ or "", repeats=1)
    parser.add_argument("--tasks", type=int, default=2000, help="jobs for 64 workers")
    parser.add_argument("--workers", type=int, nargs="*", default=WORKERS)
    parser.add_argument("--empty", type=int, default=2000, help="jobs that take no time")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=tuple(KINDS))
    parser.add_argument(
        "--slower", type=float, default=1.0, help="factor of all times, for a machine that is busy"
    )
    arguments = parser.parse_args()
    runs: dict[str, list[Run]] = {"pool": [], "plain Dask": [], "empty": []}
    for workers in arguments.workers:
        count = max(1, arguments.tasks * workers // 64)
        with cluster(workers) as hosts:
            for kind in arguments.kinds * arguments.repeats:
                seconds = [one * arguments.slower for one in KINDS[kind](count)]
                runs["pool"].append(hosts.measure(by_pool, seconds))
                runs["plain Dask"].append(hosts.measure(by_dask, seconds))
                print(runs["pool"][-1], runs["plain Dask"][-1], sep="\n", flush=True)
            if arguments.empty:
                runs["empty"].append(hosts.measure(by_pool, [0.0] * arguments.empty))
    table = [
        (
            f"{one.workers} workers, {one.jobs} jobs of {one.work / one.jobs:.2f} s",
            f"{one.text}; plain Dask {plain.text}",
        )
        for one, plain in zip(runs["pool"], runs["plain Dask"], strict=True)
    ]
    table += [
        (
            f"{one.jobs} empty jobs on {one.workers} workers",
            f"{one.rate:.0f} jobs/s; ms of processor a job: {one.shares}; {one.kib:.0f} KiB a job",
        )
        for one in runs["empty"]
    ]
    rows = {
        name: [{**dataclasses.asdict(run), "efficiency": run.efficiency} for run in of_name]
        for name, of_name in runs.items()
    }
    save(
        "scheduler_scaling",
        arguments.out,
        {**rows, "slower": arguments.slower, "load": os.getloadavg()},
        table,
    )


def recorded(count: int) -> list[float]:
    """Seconds of jobs, longest first, as a build starts them."""
    document = json.loads((RESULTS / "tile_build.json").read_text())
    known = [statistics.median(values) for values in document["tileiras"].values()]
    known = [seconds for seconds in known if SHORTEST <= seconds <= LONGEST]
    return sorted(random.Random(SEED).choices(known, k=count), reverse=True)


def even(count: int) -> list[float]:
    """Seconds of jobs, spread evenly, longest first."""
    return [LONGEST - (LONGEST - SHORTEST) * index / count for index in range(count)]


KINDS = {"recorded": recorded, "even": even}


def by_pool(address: str, seconds: Sequence[float], folder: Path) -> None:
    """Do the jobs as a build does."""
    setup = Setup(
        frontends={},
        search=ToolSearch(),
        cache_root=str(folder / "cache"),
        spool=str(folder / "spool"),
    )
    pool = DaskPool(
        address,
        setup=setup,
        grace=2.0,
        on_start=lambda _: None,
        note=print,
        seat=replay_seat,
    )
    try:
        futures = [pool.submit(task(index, one)) for index, one in enumerate(seconds)]
        for future in futures:
            (reply,) = future.result()
            assert isinstance(reply.result, Done), reply
    finally:
        pool.close()


def task(index: int, seconds: float) -> Task:
    """A task that sleeps."""
    spec = KernelSpec(
        name="replayed",
        language="replay",
        source=Source(root="/", path="k.replay"),
        decl=KernelDecl(
            name="replayed",
            qualified="replayed",
            location=Location(file="k.replay", line=1, column=1),
            params=(),
        ),
        symbol="replayed",
        params=(),
    )
    axes = (("JOB", index), ("SECONDS", str(seconds)), ("BYTES", BYTES))
    variant = Variant(kernel="replayed", id=f"replayed-{index}", axes=axes)
    job = Job(spec=spec, variant=variant, target=Target.parse("sm_90"))
    return Task(requests=(Compile(job=job, key=f"{index:064x}", inputs=""),), limit=300.0)


def by_dask(address: str, seconds: Sequence[float], folder: Path) -> None:  # noqa: ARG001
    """Give the same sleeps to Dask at once."""
    with distributed.Client(address, set_as_default=False) as client:
        client.gather([client.submit(time.sleep, one, pure=False) for one in seconds])


class Hosts:
    """Processes of a scheduler and of workers."""

    def __init__(self, address: str, workers: int, pids: dict[str, int]) -> None:
        self._address, self._workers = address, workers
        self._processes = {name: psutil.Process(pid) for name, pid in pids.items()}

    def measure(
        self, do: Callable[[str, Sequence[float], Path], None], seconds: Sequence[float]
    ) -> Run:
        with tempfile.TemporaryDirectory() as folder:
            before, moved, start = self._cpu(), traffic(), time.perf_counter()
            do(self._address, seconds, Path(folder))
            wall = time.perf_counter() - start
        after = self._cpu()
        return Run(
            workers=self._workers,
            jobs=len(seconds),
            work=sum(seconds),
            wall=wall,
            cpu={name: after[name] - before[name] for name in after},
            moved=traffic() - moved,
        )

    def _cpu(self) -> dict[str, float]:
        return {name: sum(process.cpu_times()[:2]) for name, process in self._processes.items()}


def traffic() -> int:
    """Bytes that passed between processes of this machine."""
    return int(psutil.net_io_counters(pernic=True)["lo"].bytes_recv)


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[Hosts]:
    """A scheduler and workers, in a process each."""
    with _hosted(_scheduler) as scheduler:
        address = scheduler.recv()
        with _hosted(_workers, address, workers) as hosts:
            pids = {"scheduler": scheduler.recv(), "workers": hosts.recv(), "build": os.getpid()}
            yield Hosts(address, workers, pids)


@contextlib.contextmanager
def _hosted(serve: Callable[..., None], *args: Any) -> Iterator[Connection]:
    """A process that serves until its connection is closed."""
    ours, theirs = _PROCESSES.Pipe()
    process = _PROCESSES.Process(target=serve, args=(theirs, *args))
    process.start()
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        process.join()


def _scheduler(channel: Connection) -> None:
    _host()

    async def serve() -> None:
        async with distributed.Scheduler(port=0, host="127.0.0.1", dashboard=False) as scheduler:
            channel.send(scheduler.address)
            channel.send(os.getpid())
            await _closed(channel)

    asyncio.run(serve())


def _workers(channel: Connection, address: str, count: int) -> None:
    _host()

    async def serve() -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(count):
                worker = distributed.Worker(address, nthreads=1, memory_limit=0, dashboard=False)
                await stack.enter_async_context(worker)
            channel.send(os.getpid())
            await _closed(channel)

    asyncio.run(serve())


def _host() -> None:
    """Leave out what a worker does for its process, which 64 would do for this one."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    dask.config.set(
        {
            "distributed.worker.profile.enabled": False,
            "distributed.admin.system-monitor.interval": "10s",
            "distributed.admin.tick.interval": "1s",
        }
    )


async def _closed(channel: Connection) -> None:
    """Wait for the other end's end."""
    with contextlib.suppress(EOFError):
        await asyncio.to_thread(channel.recv)


if __name__ == "__main__":
    main()
