"""What the benchmarks share: timing of commands, facts of the machine, and where results are
written.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
CUDA_KERNELS = ("reduce_sum", "block_scan", "elementwise", "stencil")
TILE_KERNELS = ("vector_add", "saxpy", "softmax", "rms_norm", "layer_norm", "gemm")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """Wall seconds, and processor seconds of all child processes."""

    wall: float
    cpu: float


def options(doc: str, *, repeats: int = 3) -> argparse.ArgumentParser:
    """The command line that all benchmarks have."""
    parser = argparse.ArgumentParser(description=doc.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--repeats", type=int, default=repeats, help="measurements; the median counts"
    )
    parser.add_argument("-j", "--jobs", type=int, default=cores(), help="worker processes")
    parser.add_argument(
        "--out", type=Path, help="where to write the JSON (default: benchmarks/results/NAME.json)"
    )
    return parser


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def tilec() -> str:
    """The tilec command of this Python."""
    found = Path(sysconfig.get_path("scripts")) / "tilec"
    if found.is_file():
        return str(found)
    other = shutil.which("tilec")
    if other is None:
        sys.exit("no tilec command: install the project first")
    return other


def timed(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> float:
    """Wall seconds of a command.

    Raises:
        SystemExit: the command failed; its output is printed.
    """
    start = time.perf_counter()
    done = subprocess.run(
        command, env=environment(env or {}), cwd=cwd, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"{' '.join(command)} exited with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return seconds


def spent(work: Callable[[], object]) -> Spent:
    """What a piece of work that runs in child processes takes."""
    before, start = _children(), time.perf_counter()
    work()
    return Spent(wall=time.perf_counter() - start, cpu=_children() - before)


def _children() -> float:
    """Processor seconds of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """This process's environment and more; Python may keep compiled modules, as it does for
    everyone who installs tilec.
    """
    return {
        name: value
        for name, value in {**os.environ, **more}.items()
        if name != "PYTHONDONTWRITEBYTECODE"
    }


def median(values: Sequence[float]) -> float:
    """The median."""
    return statistics.median(values)


def toolkit() -> Path:
    """The CUDA toolkit of the installed wheels."""
    for folder in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        root = Path(folder) / "nvidia" / "cu13"
        if (root / "bin" / "nvcc").is_file():
            return root
    sys.exit("no toolkit wheels: install tilec[build]")


def example_project(folder: Path, kernels: Sequence[str] = ()) -> Path:
    """A copy of the examples' project: manifest (of some kernels alone, where they are named),
    sources and licence, nothing built.
    """
    project = folder / "project"
    shutil.copytree(
        ROOT / "examples", project / "examples", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("tilec.toml", "LICENSE"):
        shutil.copy(ROOT / name, project / name)
    if kernels:
        manifest = project / "tilec.toml"
        manifest.write_text(_only(manifest.read_text(encoding="utf-8"), kernels), encoding="utf-8")
    return project


def _only(manifest: str, kernels: Sequence[str]) -> str:
    """A manifest without the tables of other kernels."""
    kept, here = [], True
    for line in manifest.splitlines(keepends=True):
        if line.startswith("["):
            table = line.strip("[] \n").split(".")
            here = table[0] != "kernel" or table[1] in kernels
        if here:
            kept.append(line)
    return "".join(kept)


def machine() -> dict[str, Any]:
    """Where the numbers come from."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in _lines("/proc/cpuinfo")
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    memory = next(
        (
            int(line.split()[1]) // 1024
            for line in _lines("/proc/meminfo")
            if line.startswith("MemTotal")
        ),
        0,
    )
    versions = {"python": platform.python_version()}
    for name in (
        "tilec",
        "tilec-runtime",
        "cuda-tile",
        "cuda-bindings",
        "nvidia-cuda-nvrtc",
        "nvidia-cuda-nvcc",
        "nvidia-cuda-tileiras",
    ):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "system": platform.platform(),
        "cpu": model,
        "cores": cores(),
        "memory_mib": memory,
        "versions": versions,
    }


def gpu_machine(torch: Any) -> dict[str, Any]:
    """The GPU and the versions that numbers of a GPU come from."""
    facts = torch.cuda.get_device_properties(0)
    driver = Path("/proc/driver/nvidia/version")
    return {
        "device": facts.name,
        "compute_capability": [facts.major, facts.minor],
        "driver": driver.read_text(encoding="utf-8").splitlines()[0]
        if driver.is_file()
        else "unknown",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def save(
    name: str, out: Path | None, rows: Mapping[str, Any], table: Sequence[tuple[str, str]]
) -> None:
    """Print the table, and write it with everything measured as JSON and as Markdown next to it."""
    where = machine()
    width = max(len(label) for label, _ in table)
    for label, value in table:
        print(f"{label:<{width}}  {value}")
    path = out or RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"schema_version": 1, "benchmark": name, "machine": where, **rows}
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    lines = [
        f"# {name}",
        "",
        "| | |",
        "|---|---|",
        *(f"| {label} | {value} |" for label, value in table),
        "",
    ]
    lines.append(
        f"Measured on {where['cpu']} with {where['cores']} cores, Python {where['versions']['python']}; all in one run."
    )
    path.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written to {path}")
