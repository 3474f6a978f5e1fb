"""Cold build of the tile examples against the assembler alone: the very tileiras runs of that
build, by themselves.

What each job hands to tileiras is recorded once (hints and bytecode differ between targets, so
portable bytecode would not do). Then take turns: builds, the recorded commands one after another,
and the same commands at once, longest first, on as many processes as the build has workers. The sum
over the cores is what no schedule beats; the commands at once show what of the rest is the
machine's and the longest job's doing. One more build, watched from inside, says where its time
goes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

from common import TILE_KERNELS, example_project, median, options, save, spent, tilec, timed

from tilec.build import build as build_here
from tilec.compile.events import Observer, Outcome
from tilec.frontends.base import ToolSearch
from tilec.frontends.tile.frontend import TileFrontend
from tilec.frontends.tools import tileiras
from tilec.model.job import Job
from tilec.planning import BuildRequest, plan_only


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run of the assembler: the job it belongs to, and the command, which ends in its output
    file.
    """

    job: str
    command: tuple[str, ...]


def main() -> None:
    """Measure and save."""
    parser = options(__doc__ or "")
    parser.add_argument(
        "--targets", default="sm_80,sm_90,sm_120", help="cubin targets to build for"
    )
    parser.add_argument("--kernels", default=",".join(TILE_KERNELS), help="kernels to build")
    arguments = parser.parse_args()
    targets, kernels, jobs = (
        tuple(arguments.targets.split(",")),
        tuple(arguments.kernels.split(",")),
        arguments.jobs,
    )
    builds, singles, together = [], [], []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        project = example_project(folder)
        runs = recorded(project, folder, targets, kernels)
        longest_first = sorted(
            runs, key=lambda run: timed(run.command), reverse=True
        )  # reads the toolkit from disk too
        for _ in range(arguments.repeats):
            builds.append(spent(lambda: build(project, folder, targets, kernels, jobs)))
            singles.append([timed(run.command) for run in runs])
            together.append(spent(lambda: at_once(longest_first, jobs)))
        parts = watched(project, folder, targets, kernels, jobs)
    ours, alone = median([b.wall for b in builds]), median([sum(single) for single in singles])
    ideal, floor = alone / jobs, median([t.wall for t in together])
    longest = max(median(times) for times in zip(*singles, strict=True))
    cpu, floor_cpu = median([b.cpu for b in builds]), median([t.cpu for t in together])
    table = [
        ("jobs", f"{len(runs)} ({len(runs) // len(targets)} variants x {', '.join(targets)})"),
        ("tilec build, cold", f"{ours:.2f} s with {jobs} workers"),
        (
            "sum of tileiras, one after another",
            f"{alone:.2f} s, {ideal:.2f} s on {jobs} cores; the longest takes {longest:.2f} s",
        ),
        (f"the same commands, longest first, {jobs} at once", f"{floor:.2f} s"),
        ("build over (sum / cores)", f"{(ours / ideal - 1) * 100:+.1f} % (wanted: at most +10 %)"),
        ("build over the commands at once", f"{(ours / floor - 1) * 100:+.1f} %"),
        (
            "processor time of the build, of the commands at once",
            f"{cpu:.2f} s, {floor_cpu:.2f} s ({(cpu / floor_cpu - 1) * 100:+.1f} %)",
        ),
        *((f"one build: {name}", f"{seconds:.2f} s") for name, seconds in parts.items()),
    ]
    rows = {
        "targets": targets,
        "builds": [dataclasses.asdict(b) for b in builds],
        "tileiras": {run.job: [single[i] for single in singles] for i, run in enumerate(runs)},
        "together": [dataclasses.asdict(t) for t in together],
        "parts": parts,
        "ratio": ours / ideal,
        "ratio_together": ours / floor,
        "ratio_cpu": cpu / floor_cpu,
    }
    save("tile_build", arguments.out, rows, table)


def recorded(
    project: Path, folder: Path, targets: tuple[str, ...], kernels: tuple[str, ...]
) -> list[Run]:
    """The assembler's runs of a build of these targets and kernels, with their inputs in files."""
    plan = plan_only(
        BuildRequest(manifest_path=project / "tilec.toml", targets=targets, select=kernels),
        Observer(),
    )
    frontend = TileFrontend(ToolSearch())
    runs: list[Run] = []

    class Recorded(Exception):  # noqa: N818  (not an error: the rest of the compile is not wanted)
        pass

    def record(job: Job, bytecode: bytes, tool: str, opt: int) -> None:
        source, output = folder / f"{job.id}.tileirbc", folder / f"{job.id}.cubin"
        source.write_bytes(bytecode)
        flags = ("--lineinfo",) if job.spec.lineinfo else ()
        command = (tool, str(source), "--gpu-name", str(job.target), f"-O{opt}", *flags)
        runs.append(Run(job=job.id, command=(*command, "-o", str(output))))
        raise Recorded

    with mock.patch.object(tileiras, "_assembled", record):
        for job in plan.jobs:
            with contextlib.suppress(Recorded):
                frontend.compile(job)
    if len(runs) != len(plan.jobs):
        raise SystemExit(f"{len(plan.jobs)} jobs, but {len(runs)} runs of the assembler")
    return runs


def build(
    project: Path, folder: Path, targets: Sequence[str], kernels: Sequence[str], jobs: int
) -> None:
    """A build with nothing cached."""
    cache = forget(project, folder)
    command = [
        tilec(),
        "build",
        "-C",
        str(project),
        "--targets",
        ",".join(targets),
        "--select",
        ",".join(kernels),
        "-j",
        str(jobs),
        "-q",
    ]
    timed(command, env={"TILEC_CACHE_DIR": str(cache), "CUDA_TILE_CACHE_DIR": "off"})


def forget(project: Path, folder: Path) -> Path:
    """Remove what builds left; the place of an empty cache."""
    cache = folder / "cache"
    for path in (cache, project / ".tilec", project / "dist"):
        shutil.rmtree(path, ignore_errors=True)
    return cache


def at_once(runs: Sequence[Run], processes: int) -> None:
    """Run commands in this order, several at a time."""
    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(lambda run: timed(run.command), runs))


class Watch(Observer):
    """Notes when jobs start and end."""

    def __init__(self) -> None:
        self.starts: list[float] = []
        self.ends: list[float] = []
        self.seconds = 0.0

    def job_started(self, job_id: str) -> None:  # noqa: ARG002
        """Note the time."""
        self.starts.append(time.perf_counter())

    def job_finished(self, job_id: str, outcome: Outcome) -> None:  # noqa: ARG002
        """Note the time, and what the worker measured."""
        self.ends.append(time.perf_counter())
        self.seconds += getattr(outcome, "seconds", 0.0)


def watched(
    project: Path, folder: Path, targets: tuple[str, ...], kernels: tuple[str, ...], jobs: int
) -> dict[str, float]:
    """Where the time of a cold build goes: all but the interpreter's start, since the build runs in
    this process.
    """
    watch, cache = Watch(), forget(project, folder)
    request = BuildRequest(
        manifest_path=project / "tilec.toml",
        targets=targets,
        select=kernels,
        workers=jobs,
        cache_dir=cache,
    )
    start = time.perf_counter()
    build_here(request, watch)
    end = time.perf_counter()
    return {
        "before the first job (reading sources, start of workers)": watch.starts[0] - start,
        "jobs in workers, over all workers": watch.seconds,
        "workers between jobs, over all workers": sum(watch.ends)
        - sum(watch.starts)
        - watch.seconds,
        "workers without a job at the end, over all workers": sum(
            watch.ends[-1] - t for t in watch.ends[-jobs:]
        ),
        "after the last job (bundle, package)": end - watch.ends[-1],
    }


if __name__ == "__main__":
    main()
