"""Cold build of the CUDA examples, four cubins and one PTX: tilec against nvcc file by file, and against make -j2 over nvcc.

nvcc compiles every file once with all five -gencode; the templated kernel is instantiated explicitly for all nine points of its matrix in
one file. tilec starts with an empty cache and an empty build directory. Measurements take turns, so that a drift of the machine meets all.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from common import CUDA_KERNELS, example_project, median, options, save, tilec, timed, toolkit

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120", "compute_80")
GENCODE = [f"arch=compute_{t[3:]},code={t}" for t in TARGETS[:-1]] + ["arch=compute_80,code=compute_80"]
TYPES = ("__half", "__nv_bfloat16", "float")
WIDTHS = (1, 4, 8)


def main() -> None:
    """Measure and save."""
    arguments = options(__doc__ or "").parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        project = example_project(folder)
        commands = nvcc_commands(project, folder)
        makefile = write_makefile(folder, commands)
        rows: dict[str, list[float]] = {"tilec": [], "nvcc": [], "make": []}
        timed(commands[0])  # the first run reads the toolkit from disk
        for _ in range(arguments.repeats):
            rows["tilec"].append(tilec_build(project, folder, arguments.jobs))
            rows["nvcc"].append(sum(timed(command) for command in commands))
            rows["make"].append(timed(["make", "-B", "-s", "-j2", "-f", str(makefile), "all"]))
    ours, serial, parallel = (median(rows[name]) for name in ("tilec", "nvcc", "make"))
    table = [
        ("tilec build, cold", f"{ours:.2f} s with {arguments.jobs} workers"),
        ("nvcc, one file after another", f"{serial:.2f} s"),
        ("make -j2 over nvcc", f"{parallel:.2f} s"),
        ("nvcc / tilec", f"{serial / ours:.2f}x (wanted: 4)"),
        ("make -j2 / tilec", f"{parallel / ours:.2f}x (wanted: 2)"),
    ]
    save("cold_build", arguments.out, {"seconds": rows, "targets": TARGETS, "nvcc": serial / ours, "make": parallel / ours}, table)


def tilec_build(project: Path, folder: Path, jobs: int) -> float:
    """Seconds of a build with nothing cached."""
    cache = folder / "cache"
    for path in (cache, project / ".tilec", project / "dist"):
        shutil.rmtree(path, ignore_errors=True)
    what = ["--targets", ",".join(TARGETS), "--select", ",".join(CUDA_KERNELS)]
    command = [tilec(), "build", "-C", str(project), *what, "-j", str(jobs), "-q"]
    return timed(command, env={"TILEC_CACHE_DIR": str(cache)})


def nvcc_commands(project: Path, folder: Path) -> list[list[str]]:
    """One nvcc command per file."""
    sources = project / "examples" / "cuda"
    every = sources / "elementwise_all.cu"
    parameters = "({T}*, const {T}*, float, float, long long);\n"
    lines = [f"template __global__ void scale_bias<{t}, {v}>{parameters.replace('{T}', t)}" for t in TYPES for v in WIDTHS]
    every.write_text('#include "elementwise.cu"\n' + "".join(lines), encoding="utf-8")
    base = [str(toolkit() / "bin" / "nvcc"), "-std=c++17", "-O3", "-fatbin", "-I", str(sources / "include")]
    flags = [word for code in GENCODE for word in ("-gencode", code)]
    names = ("reduce_sum", "block_scan", "elementwise_all", "stencil")
    return [[*base, *flags, "-o", str(folder / f"{name}.fatbin"), str(sources / f"{name}.cu")] for name in names]


def write_makefile(folder: Path, commands: list[list[str]]) -> Path:
    """A makefile with a rule per file."""
    targets = [command[command.index("-o") + 1] for command in commands]
    rules = [f"all: {' '.join(targets)}"]
    rules += [f"{target}:\n\t{' '.join(command)}" for target, command in zip(targets, commands, strict=True)]
    path = folder / "Makefile"
    path.write_text("\n".join(rules) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    main()
