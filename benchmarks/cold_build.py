"""Cold build of the CUDA examples, four cubins and one PTX: tilec against nvcc file by file, and
against make -j2 over nvcc.

nvcc compiles every file once with all five -gencode; the templated kernel is instantiated
explicitly for all nine points of its matrix in one file. tilec starts with an empty cache and an
empty build directory, from a manifest of the same kernels: nvcc does not read the tile examples
either. Measurements take turns, so that a drift of the machine meets all.

CPU seconds (user and system, of all processes) stand beside wall times: they say more where other
work runs on the machine.
"""

from __future__ import annotations

import resource
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from common import CUDA_KERNELS, example_project, median, options, save, tilec, timed, toolkit

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120", "compute_80")
GENCODE = [f"arch=compute_{t[3:]},code={t}" for t in TARGETS[:-1]] + [
    "arch=compute_80,code=compute_80"
]
TYPES = ("__half", "__nv_bfloat16", "float")
WIDTHS = (1, 4, 8)


def main() -> None:
    """Measure and save."""
    arguments = options(__doc__ or "").parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        project = example_project(folder, CUDA_KERNELS)
        commands = nvcc_commands(project, folder)
        makefile = write_makefile(folder, commands)
        runs: dict[str, Callable[[], float]] = {
            "tilec": lambda: tilec_build(project, folder, arguments.jobs),
            "nvcc": lambda: sum(timed(command) for command in commands),
            "make": lambda: timed(["make", "-B", "-s", "-j2", "-f", str(makefile), "all"]),
        }
        rows: dict[str, list[float]] = {name: [] for name in runs}
        cpu: dict[str, list[float]] = {name: [] for name in rows}
        timed(commands[0])  # the first run reads the toolkit from disk
        for _ in range(arguments.repeats):
            for name, run in runs.items():
                before = children_seconds()
                rows[name].append(run())
                cpu[name].append(children_seconds() - before)
    ours, serial, parallel = (median(rows[name]) for name in ("tilec", "nvcc", "make"))
    table = [
        ("tilec build, cold", f"{ours:.2f} s with {arguments.jobs} workers"),
        ("nvcc, one file after another", f"{serial:.2f} s"),
        ("make -j2 over nvcc", f"{parallel:.2f} s"),
        ("nvcc / tilec", f"{serial / ours:.2f}x (wanted: 4)"),
        ("make -j2 / tilec", f"{parallel / ours:.2f}x (wanted: 2)"),
        (
            "CPU seconds of tilec, nvcc, make",
            ", ".join(f"{median(cpu[name]):.2f}" for name in rows),
        ),
    ]
    ratios = {"nvcc": serial / ours, "make": parallel / ours}
    save(
        "cold_build",
        arguments.out,
        {"seconds": rows, "cpu_seconds": cpu, "targets": TARGETS, **ratios},
        table,
    )


def children_seconds() -> float:
    """CPU seconds of every process that was run and waited for so far, its own children included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tilec_build(project: Path, folder: Path, jobs: int) -> float:
    """Seconds of a build with nothing cached."""
    cache = folder / "cache"
    for path in (cache, project / ".tilec", project / "dist"):
        shutil.rmtree(path, ignore_errors=True)
    command = [
        tilec(),
        "build",
        "-C",
        str(project),
        "--targets",
        ",".join(TARGETS),
        "-j",
        str(jobs),
        "-q",
    ]
    return timed(command, env={"TILEC_CACHE_DIR": str(cache)})


def nvcc_commands(project: Path, folder: Path) -> list[list[str]]:
    """One nvcc command per file."""
    sources = project / "examples" / "cuda"
    every = sources / "elementwise_all.cu"
    parameters = "({T}*, const {T}*, float, float, long long);\n"
    lines = [
        f"template __global__ void scale_bias<{t}, {v}>{parameters.replace('{T}', t)}"
        for t in TYPES
        for v in WIDTHS
    ]
    every.write_text('#include "elementwise.cu"\n' + "".join(lines), encoding="utf-8")
    base = [
        str(toolkit() / "bin" / "nvcc"),
        "-std=c++17",
        "-O3",
        "-fatbin",
        "-I",
        str(sources / "include"),
    ]
    flags = [word for code in GENCODE for word in ("-gencode", code)]
    names = ("reduce_sum", "block_scan", "elementwise_all", "stencil")
    return [
        [*base, *flags, "-o", str(folder / f"{name}.fatbin"), str(sources / f"{name}.cu")]
        for name in names
    ]


def write_makefile(folder: Path, commands: list[list[str]]) -> Path:
    """A makefile with a rule per file."""
    targets = [command[command.index("-o") + 1] for command in commands]
    rules = [f"all: {' '.join(targets)}"]
    rules += [
        f"{target}:\n\t{' '.join(command)}"
        for target, command in zip(targets, commands, strict=True)
    ]
    path = folder / "Makefile"
    path.write_text("\n".join(rules) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    main()
