"""On a GPU: what the first launch costs in a process whose arrays exist already, from the import to the end of the kernel.

usage: python benchmarks/cold_start.py OUT.json [--dist dist] [--repeats 7] [--before DIR]. Each way runs in new processes: those of
a turn get ready side by side (torch makes the arrays), then each is let go when the one before has ended. Caches are warm.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from launch_ways import KERNEL, compiled

BEFORE = """
import json, sys, time
sys.path[:] = filter(None, sys.path)  # the working directory may have a tilec of its own
import torch
z, x, y = (torch.ones(256, device="cuda") for _ in range(3))
torch.cuda.synchronize()
print("ready", flush=True)
sys.stdin.readline()
ticks = [time.perf_counter()]
def tick():
    ticks.append(time.perf_counter())
"""
AFTER = """
torch.cuda.synchronize()
tick()
assert float(z[255]) == 2.0
if "tilec" in sys.modules:
    assert sys.modules["tilec"].__file__.startswith(TILEC), f"measured {sys.modules['tilec'].__file__}, not that of {TILEC}"
print(json.dumps([b - a for a, b in zip(ticks, ticks[1:])]), flush=True)
"""
WAYS = {
    "tilec": """
import tilec_examples
tick()
module = tilec_examples.load("cuda:0")
tick()
module.vector_add(torch.cuda.current_stream(), z, x, y)
""",
    "cuda.bindings, its import alone": """
from cuda.bindings import driver
tick()
tick()
torch.add(x, y, out=z)
""",
    "cuda.bindings, PTX": """
from cuda.bindings import driver
tick()
module = driver.cuModuleLoadData(PTX)[1]
function = driver.cuModuleGetFunction(module, b"scale")[1]
tick()
import ctypes
values = ((z.data_ptr(), x.data_ptr(), y.data_ptr(), 256), (ctypes.c_void_p,) * 3 + (ctypes.c_int,))
driver.cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, 0, values, 0)
""",
    "cuda.core, PTX": """
import numpy
from cuda.core import Device, LaunchConfig, ObjectCode, launch
tick()
device = Device(0)
device.set_current()
kernel = ObjectCode.from_ptx(PTX).get_kernel("scale")
tick()
pointers = (z.data_ptr(), x.data_ptr(), y.data_ptr(), numpy.int32(256))
launch(device.default_stream, LaunchConfig(grid=1, block=256), kernel, *pointers)
""",
    "CuPy RawKernel, warm cache": """
import cupy
tick()
kernel = cupy.RawKernel(KERNEL, "scale")
kernel.compile()
tick()
kernel((1,), (256,), (cupy.asarray(z), cupy.asarray(x), cupy.asarray(y), cupy.int32(256)))
""",
    "Triton, warm cache": """
sys.path.insert(0, FOLDER)
from triton_add import add
tick()
tick()
add[(1,)](z, x, y, 256, B=256)
""",
}
FACTS = """
import json, sys, torch
sys.path.insert(0, HERE)
from gpu_launch import machine
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(machine(torch)))
"""
TRITON = """
import triton
import triton.language as tl
@triton.jit
def add(y, x, z, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(y + i, tl.load(x + i, m) + tl.load(z + i, m), m)
"""


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path, help="where to write the JSON")
    parser.add_argument("--dist", type=Path, default=Path(__file__).resolve().parents[1] / "dist", help="where tilec_examples lies")
    parser.add_argument("--repeats", type=int, default=7, help="processes of each way")
    parser.add_argument("--before", type=Path, help="another checkout, whose tilec is measured too")
    parser.add_argument("--limit", type=int, default=30, help="seconds that a process may take")
    parser.add_argument("--only", nargs="*", default=(), help="ways whose names start so")
    arguments = parser.parse_args()
    tilec = Path(importlib.import_module("tilec").__path__[0])
    for place in (arguments.dist, tilec, *([arguments.before / "tilec"] if arguments.before else [])):
        compileall.compile_dir(place, quiet=2)
    paths = {name: [str(arguments.dist.resolve()), str(tilec.parent)] for name in WAYS if name.startswith(tuple(arguments.only) or "")}
    if arguments.before:
        paths["tilec, before"] = [str(arguments.dist.resolve()), str(arguments.before.resolve())]
    document: dict[str, Any] = {"schema_version": 1, "benchmark": "cold_start", "machine": {}, "milliseconds": {}}
    found: dict[str, list[list[float]]] = {name: [] for name in paths}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "triton_add.py").write_text(TRITON, encoding="utf-8")
        here = str(Path(__file__).resolve().parent)
        document["machine"], error = Process(f"HERE = {here!r}\n{FACTS}", [], Path(folder)).end(arguments.limit)
        if error:
            print(f"no GPU, nothing was measured: {error}", file=sys.stderr)
            return 3
        head = f"KERNEL, PTX, FOLDER = {KERNEL!r}, {compiled()!r}, {folder!r}\n{BEFORE}"
        for turn in range(arguments.repeats + 1):  # the first one warms caches and the disk
            names = [name for name in paths if "error" not in document["milliseconds"].get(name, {})]
            ready = [
                Process(f"TILEC = {paths[name][1]!r}\n{head}{WAYS[name.partition(', before')[0]]}{AFTER}", paths[name], Path(folder))
                for name in names
            ]
            for process in ready:
                process.wait()
            for name, process in zip(names, ready, strict=True):
                parts, error = process.end(arguments.limit)
                if turn and not error:
                    found[name].append(parts)
                if turn or error:
                    document["milliseconds"][name] = {"error": error} if error else row(found[name])
                    arguments.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
                    print(f"{turn} {name:32} {document['milliseconds'][name]}", flush=True)
    return 0


class Process:
    """One that gets ready, waits until it is let go, and prints what it measured."""

    def __init__(self, code: str, path: list[str], folder: Path) -> None:
        """Start it."""
        caches = {"TRITON_CACHE_DIR": str(folder / "triton"), "CUPY_CACHE_DIR": str(folder / "cupy")}
        environment = {**os.environ, **caches, "PYTHONPATH": os.pathsep.join([*path, *filter(None, [os.environ.get("PYTHONPATH")])])}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self._process = subprocess.Popen([sys.executable, "-c", code], env=environment, text=True, **pipes)

    def wait(self) -> None:
        """Until it is ready, or has ended."""
        assert self._process.stdout
        self._process.stdout.readline()

    def end(self, limit: int) -> tuple[Any, str]:
        """Let it go: what it measured, or what went wrong in it."""
        try:
            out, err = self._process.communicate("\n", timeout=limit)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            return None, f"no end within {limit} s"
        if self._process.returncode:
            return None, (err.strip().splitlines() or [f"failed ({self._process.returncode})"])[-1]
        return json.loads(out.splitlines()[-1]), ""


def row(turns: list[list[float]]) -> dict[str, Any]:
    """Medians in milliseconds."""
    parts = [statistics.median(turn[part] for turn in turns) * 1e3 for part in range(3)]
    whole = [sum(turn) * 1e3 for turn in turns]
    return {
        "import": round(parts[0], 1),
        "load": round(parts[1], 1),
        "launch and wait": round(parts[2], 1),
        "together": round(statistics.median(whole), 1),
        "most": round(max(whole), 1),
        "least": round(min(whole), 1),
    }


if __name__ == "__main__":
    sys.exit(main())
