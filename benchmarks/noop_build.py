"""A build with nothing to do: the examples, and a generated project of 10,000 jobs; time per job
and peak memory of the main process.

The generated project has 100 files of one templated kernel, 25 points each, for four targets. It is
built once (some minutes), then again with nothing changed. "Untouched" is a build that sees so by
file status; before a "touched" one the manifest gets a new time, so that everything is loaded,
planned, hashed and compared by content. Processor time tells on a machine that does other things
too.
"""

from __future__ import annotations

import dataclasses
import operator
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from common import Spent, environment, example_project, median, options, save, spent, tilec, timed

T = TypeVar("T")
WALL, CPU = operator.attrgetter("wall"), operator.attrgetter("cpu")
FILES, POINTS = 100, 25
TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90")
MANIFEST = """\
edition = 1
[package]
name = "many"
version = "1.0"
[targets]
default = [{targets}]
"""
KERNEL = """\
[kernel.k{n}]
source = "src/k{n}.cu"
symbol = "fill{n}<{{N}}>"
matrix = {{ N = [{points}] }}
dispatch = {{ default = {{ N = 0 }} }}
launch = {{ grid = ["cdiv(x.size, 256)"], block = [256] }}
params = {{ x = {{ rank = 1, out = true }} }}
args = ["x.ptr", "i32(x.size)"]
"""
SOURCE = """\
template <int N>
__global__ void fill{n}(int* x, int n) {{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = N;
}}
"""


def main() -> None:
    """Measure and save."""
    parser = options(__doc__ or "", repeats=9)
    parser.add_argument(
        "--files", type=int, default=FILES, help="files of the generated project (100 jobs each)"
    )
    parser.add_argument(
        "--examples-targets",
        default="",
        help="targets of the examples (default: all of the manifest)",
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        env = {"TILEC_CACHE_DIR": str(folder / "cache")}
        project = example_project(folder)
        base = [tilec(), "build", "-q", "-j", str(arguments.jobs), "-C"]
        command = [
            *base,
            str(project),
            *(["--targets", arguments.examples_targets] if arguments.examples_targets else []),
        ]
        timed(command, env=env)
        examples = [
            touched(project, lambda: spent(lambda: timed(command, env=env)))
            for _ in range(arguments.repeats)
        ]
        timed(command, env=env)
        untouched = [spent(lambda: timed(command, env=env)) for _ in range(arguments.repeats)]
        many = generate(folder / "many", arguments.files)
        jobs = arguments.files * POINTS * len(TARGETS)
        peaks: list[int] = []
        first = spent(lambda: peaks.append(watched([*base, str(many)], env)))
        runs = [
            touched(many, lambda: spent(lambda: peaks.append(watched([*base, str(many)], env))))
            for _ in range(arguments.repeats)
        ]
    peak = max(peaks)
    each, each_cpu = (
        (median([of(r) for r in runs]) - median([of(e) for e in examples])) / jobs
        for of in (WALL, CPU)
    )
    table = [
        ("no-op build of the examples, untouched", f"{shown(untouched)} (wanted: under 250 ms)"),
        ("no-op build of the examples, touched", shown(examples)),
        (f"no-op build of {jobs} jobs, touched", shown(runs)),
        (
            "per up-to-date job, beyond the examples",
            f"{each * 1e3:.3f} ms, processor {each_cpu * 1e3:.3f} ms (wanted: under 0.1)",
        ),
        ("peak memory of the main process", f"{peak / 1024:.0f} MiB (wanted: under 300 MB)"),
        (
            "first build of the generated project",
            f"{first.wall:.0f} s with {arguments.jobs} workers",
        ),
    ]
    rows = {
        "untouched": [dataclasses.asdict(u) for u in untouched],
        "examples": [dataclasses.asdict(e) for e in examples],
        "many": [dataclasses.asdict(r) for r in runs],
        "jobs": jobs,
        "per_job": each,
        "per_job_cpu": each_cpu,
        "peak_kib": peak,
        "first_build": first.wall,
    }
    save("noop_build", arguments.out, rows, table)


def shown(measured: list[Spent]) -> str:
    """Medians of both times."""
    return f"{median([m.wall for m in measured]) * 1e3:.0f} ms, processor {median([m.cpu for m in measured]) * 1e3:.0f} ms"


def touched(project: Path, run: Callable[[], T]) -> T:
    """`run` after the manifest got a new time; a file that is as new as the build would not be
    trusted, hence the wait.
    """
    os.utime(project / "tilec.toml")
    time.sleep(0.05)
    return run()


def generate(project: Path, files: int) -> Path:
    """A project of many small kernels."""
    (project / "src").mkdir(parents=True)
    points = ", ".join(str(n) for n in range(POINTS))
    text = MANIFEST.format(targets=", ".join(f'"{t}"' for t in TARGETS))
    for n in range(files):
        text += KERNEL.format(n=n, points=points)
        (project / "src" / f"k{n}.cu").write_text(SOURCE.format(n=n), encoding="utf-8")
    (project / "tilec.toml").write_text(text, encoding="utf-8")
    return project


def watched(command: list[str], env: dict[str, str]) -> int:
    """The peak resident memory of a command's main process in KiB (its workers aside)."""
    process = subprocess.Popen(
        command, env=environment(env), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    peak = 0
    while process.poll() is None:
        peak = max(peak, high_water(process.pid))
        time.sleep(0.01)
    if process.returncode:
        raise SystemExit(
            f"{' '.join(command)} exited with {process.returncode}\n{process.stderr.read() if process.stderr else ''}"
        )
    return peak


def high_water(pid: int) -> int:
    """Peak resident memory of a process in KiB, 0 once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


if __name__ == "__main__":
    main()
