"""A remote cache: no-op builds beside it, and cold checkouts that it fills.

The generated project is that of `noop_build.py` (100 files of one templated kernel, 25 points each,
for four targets: 10,000 jobs, which NVRTC compiles in groups, a few milliseconds a job). It is built
once with `--remote-mode write`, against a server in Python that runs on the same cores. Then:

- no-op builds, each before a touched manifest, with and without the remote, in turn;
- a cold checkout: an empty cache, the same tilec.lock, the remote full.

Jobs of the examples (CUDA C++ and tile kernels, for sm_80 and sm_90) take as long as real ones.
Their cold build and cold checkout are measured too. Processor seconds of that build by job give the
time of 10,000 such jobs on all workers: seconds * 10,000 / workers. That estimate stands beside the
processor seconds of the checkout of 10,000 jobs, which uses one core: other programs on the machine
change wall times more.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import (
    CUDA_KERNELS,
    ROOT,
    TILE_KERNELS,
    Spent,
    environment,
    example_project,
    median,
    options,
    save,
    spent,
    tilec,
)
from noop_build import FILES, POINTS, TARGETS, generate, touched

EXAMPLES = (*CUDA_KERNELS, *TILE_KERNELS)
SERVER = (
    "import sys; from tests.remote_server import CacheServer\n"
    "with CacheServer() as server: print(server.url, flush=True); sys.stdin.read()"
)


def main() -> None:
    """Measure and save."""
    parser = options(__doc__ or "", repeats=5)
    parser.add_argument("--files", type=int, default=FILES, help="files (100 jobs each)")
    arguments = parser.parse_args()
    jobs = arguments.files * POINTS * len(TARGETS)
    with tempfile.TemporaryDirectory() as scratch, served() as url:
        folder = Path(scratch)
        bench = Bench(folder, url, arguments.jobs)
        examples = example_project(folder / "examples")
        (examples / "tilec.lock").unlink(missing_ok=True)
        many = generate(folder / "many", arguments.files)
        real, real_fetch = bench.filled(examples), bench.cold(examples)
        made, made_fetch = bench.filled(many), bench.cold(many)
        noop: dict[str, list[Spent]] = {"local": [], "remote": []}
        for _ in range(arguments.repeats):
            for name, runs in noop.items():
                runs.append(touched(many, lambda name=name: bench.noop(many, name == "remote")))
    counts = real_fetch.document["remote"]
    mean = real.time.cpu / counts["hits"]
    estimate = mean * jobs / arguments.jobs
    faster = estimate / made_fetch.time.cpu
    ratio = cpu(noop["remote"]) / cpu(noop["local"])
    table = [
        (f"no-op build of {jobs} jobs", shown(noop["local"])),
        ("the same beside a full remote", f"{shown(noop['remote'])}: {ratio:.2f}x (wanted: 1.2)"),
        (f"examples, {counts['hits']} jobs: cold build", text(real)),
        ("examples: cold checkout", f"{text(real_fetch)}: {real.time.wall / real_fetch.time.wall:.1f}x faster"),
        (f"{jobs} jobs: cold checkout", text(made_fetch)),
        (f"{jobs} jobs as long as those of the examples ({mean:.2f} s): estimated build",
         f"{estimate:.0f} s: {faster:.1f}x as long as the checkout's processor time (wanted: 10)"),
        (f"{jobs} jobs of the generated project: cold build",
         f"{text(made)}: {made.time.wall / made_fetch.time.wall:.1f}x as long"),
    ]  # fmt: skip
    rows = {
        "jobs": jobs,
        "workers": arguments.jobs,
        "noop": {name: [dataclasses.asdict(run) for run in runs] for name, runs in noop.items()},
        "noop_ratio": ratio,
        "examples": {"build": real.row, "checkout": real_fetch.row},
        "generated": {"build": made.row, "checkout": made_fetch.row},
        "job_cpu_seconds": mean,
        "estimated_build": estimate,
        "estimated_ratio": faster,
        "load": os.getloadavg(),
    }
    save("remote_cache", arguments.out, rows, table)


@dataclasses.dataclass(frozen=True)
class Run:
    """Times of a command, and what it said."""

    time: Spent
    document: dict[str, Any]

    @property
    def row(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self.time), "remote": self.document["remote"]}


class Bench:
    """Builds of projects, each with a cache of its own and one remote."""

    def __init__(self, folder: Path, url: str, workers: int) -> None:
        self._folder, self._url, self._workers = folder, url, workers

    def filled(self, project: Path) -> Run:
        """A cold build that fills the remote."""
        return self._build(project, "first", "--remote-mode", "write", "--remote-wait", "600")

    def cold(self, project: Path) -> Run:
        """A build with an empty cache and no outputs, but the same tilec.lock."""
        shutil.rmtree(project / "dist")
        run = self._build(project, "second")
        assert run.document["compiled"] == 0, run.document["compiled"]
        return run

    def noop(self, project: Path, remote: bool) -> Spent:
        """A build whose outputs are up to date."""
        run = self._build(project, "second", *(() if remote else ("--remote-mode", "off")))
        assert run.document["up_to_date"]
        return run.time

    def _build(self, project: Path, cache: str, *args: str) -> Run:
        command = [tilec(), "-C", str(project), "build", "--json", "-j", str(self._workers)]
        command += ["--remote-cache", self._url, *args]
        if project.name == "project":
            command += ["--targets", "sm_80,sm_90", "--select", ",".join(EXAMPLES)]
        env = environment({"TILEC_CACHE_DIR": str(self._folder / f"{project.name}-{cache}")})
        output = self._folder / "output.json"

        def run() -> None:
            with output.open("wb") as file:
                subprocess.run(command, env=env, stdout=file, check=True)

        return Run(spent(run), json.loads(output.read_bytes()))


@contextlib.contextmanager
def served() -> Iterator[str]:
    """URL of an empty server in a process of its own."""
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin
        assert server.stdout
        try:
            yield server.stdout.readline().strip()
        finally:
            server.stdin.close()


def cpu(runs: list[Spent]) -> float:
    """Median of processor seconds, which a busy machine changes least."""
    return median([run.cpu for run in runs])


def text(run: Run) -> str:
    """Both times."""
    return f"{run.time.wall:.1f} s, processor {run.time.cpu:.1f} s"


def shown(runs: list[Spent]) -> str:
    """Medians of both times."""
    return f"{median([run.wall for run in runs]) * 1e3:.0f} ms, processor {cpu(runs) * 1e3:.0f} ms"


if __name__ == "__main__":
    main()
