"""On a GPU: what the first launch costs in a process whose arrays exist already, from the import to the end of the kernel.

usage: python benchmarks/cold_start.py OUT.json [--dist dist] [--repeats 7]. Each way runs in fresh processes, in turns; torch makes the
arrays before the clock starts. Triton and CuPy find their caches warm, Python its compiled modules, as after an installation. Medians.
Needs the built package and torch.
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
from gpu_launch import machine
from launch_ways import KERNEL, compiled

BEFORE = """
import json, sys, time
import torch
z, x, y = (torch.ones(256, device="cuda") for _ in range(3))
torch.cuda.synchronize()
ticks = [time.perf_counter()]
def tick():
    ticks.append(time.perf_counter())
"""
AFTER = """
torch.cuda.synchronize()
tick()
assert float(z[255]) == 2.0
print(json.dumps([b - a for a, b in zip(ticks, ticks[1:])]))
"""
WAYS = {
    "tilec": """
import tilec_examples
tick()
module = tilec_examples.load("cuda:0")
tick()
module.vector_add(torch.cuda.current_stream(), z, x, y)
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
    arguments = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("no GPU: nothing was measured", file=sys.stderr)
        return 3
    for place in (arguments.dist, Path(importlib.import_module("tilec").__path__[0])):
        compileall.compile_dir(place, quiet=2)
    found: dict[str, list[list[float]]] = {name: [] for name in WAYS}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "triton_add.py").write_text(TRITON, encoding="utf-8")
        for turn in range(arguments.repeats + 1):  # the first one warms caches and the disk
            for name, code in WAYS.items():
                if name not in failed:
                    parts, error = run(code, Path(folder), arguments.dist.resolve())
                    if error:
                        failed[name] = error
                    elif turn:
                        found[name].append(parts)
    document = {
        "schema_version": 1,
        "benchmark": "cold_start",
        "machine": machine(torch),
        "milliseconds": {name: {"error": failed[name]} if name in failed else row(found[name]) for name in WAYS},
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for name, values in document["milliseconds"].items():
        print(f"{name:32} {values}")
    return 0


def run(code: str, folder: Path, dist: Path) -> tuple[list[float], str]:
    """Seconds of import, of loading, and of the launch and the wait, in a process of its own; or what went wrong."""
    path = os.pathsep.join([str(dist), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "TRITON_CACHE_DIR": str(folder / "triton"), "CUPY_CACHE_DIR": str(folder / "cupy")}
    head = f"KERNEL, PTX, FOLDER = {KERNEL!r}, {compiled()!r}, {str(folder)!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", head + BEFORE + code + AFTER], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        return [], (done.stderr.strip().splitlines() or ["failed"])[-1]
    return json.loads(done.stdout.splitlines()[-1]), ""


def row(turns: list[list[float]]) -> dict[str, Any]:
    """Medians in milliseconds."""
    parts = [statistics.median(turn[part] for turn in turns) * 1e3 for part in range(3)]
    whole = [sum(turn) * 1e3 for turn in turns]
    return {
        "import": round(parts[0], 1),
        "load": round(parts[1], 1),
        "launch and wait": round(parts[2], 1),
        "together": round(statistics.median(whole), 1),
        "least": round(min(whole), 1),
    }


if __name__ == "__main__":
    sys.exit(main())
