"""On a GPU: what the first launch costs in a process whose arrays exist already, from the import to
the end of the kernel.

usage: python benchmarks/cold_start.py OUT.json [--dist dist] [--repeats 7] [--before DIR]. Each way
runs in new processes: those of a turn get ready side by side (torch makes the arrays), then each is
let go when the one before has ended. Caches are warm, where nothing else is said. The Triton
kernel, the tile kernel and the SIMT kernel are the same sources in a bundle and under their own
JIT.
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
"""
GO = """
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
if "tilec_runtime" in sys.modules:
    assert sys.modules["tilec_runtime"].__file__.startswith(TILEC), f"measured {sys.modules['tilec_runtime'].__file__}, not that of {TILEC}"
print(json.dumps([b - a for a, b in zip(ticks, ticks[1:])]), flush=True)
"""
LARGE = "tilec, 100 kernels"
WAYS = {
    "tilec": """
import tilec_examples
tick()
module = tilec_examples.load("cuda:0")
tick()
module.vector_add(z, x, y)
""",
    LARGE: """
import tilec_large
tick()
module = tilec_large.load("cuda:0")
tick()
module.add_050(z, x, y)
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
    "tilec, Triton kernel": """
import tilec_triton_examples
tick()
module = tilec_triton_examples.load("cuda:0")
tick()
module.add(z, x, y)
""",
    "Triton, warm cache": """
sys.path.insert(0, EXAMPLES + "/triton")
from add import add_kernel
tick()
tick()
add_kernel[(1,)](x, y, z, 256, BLOCK=1024)
""",
    "tilec, SIMT kernel": """
import tilec_simt_examples
tick()
module = tilec_simt_examples.load("cuda:0")
tick()
module.saxpy(z, x, 1.0)
""",
    "numba-cuda, cached": """
sys.path.insert(0, FOLDER)
from numba_saxpy import saxpy
tick()
tick()
saxpy[1, 256](z, x, numpy.float32(1))
""",
    "cuda.tile": """
sys.path.insert(0, EXAMPLES + "/tile")
import cuda.tile
from vector_add import vector_add
tick()
tick()
cuda.tile.launch(torch.cuda.current_stream(), (1,), vector_add, (z, x, y, 1024))
""",
}
WAYS["Triton, cold cache"] = WAYS["Triton, warm cache"]
# What a process does before it is let go, so that it is not measured.
SETUP = {
    "Triton, cold cache": """
import os, tempfile
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(dir=FOLDER)
""",
    # A numba that is older than the NumPy beside it misses this name of it; nothing else stands in
    # its way.
    "numba-cuda, cached": """
import numpy
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack
""",
}
# Whose code is the same: what is compared with what.
PAIRS = {
    "Triton, warm cache": "tilec, Triton kernel",
    "Triton, cold cache": "tilec, Triton kernel",
    "numba-cuda, cached": "tilec, SIMT kernel",
    "cuda.tile": "tilec",
}
FACTS = """
import json, sys, torch
sys.path.insert(0, HERE)
from common import gpu_machine as machine
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(machine(torch)))
"""
# The body of examples/simt's saxpy; numba's own cache keeps what it compiles beside the file.
NUMBA = """
from numba import cuda
@cuda.jit(cache=True)
def saxpy(y, x, a):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]
"""
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
WANTED = 10


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path, help="where to write the JSON")
    where = "where tilec_examples lies; those of examples/triton and examples/simt lie in dist/ of theirs"
    parser.add_argument("--dist", type=Path, default=EXAMPLES.parent / "dist", help=where)
    parser.add_argument(
        "--large",
        type=Path,
        help="folder of tilec_large, which large_package.py writes and `tilec build` builds",
    )
    parser.add_argument("--repeats", type=int, default=7, help="processes of each way")
    parser.add_argument("--before", type=Path, help="another checkout, whose tilec is measured too")
    parser.add_argument("--limit", type=int, default=30, help="seconds that a process may take")
    parser.add_argument("--only", nargs="*", default=(), help="ways whose names start so")
    arguments = parser.parse_args()
    tilec = Path(importlib.import_module("tilec_runtime").__path__[0])
    places = [arguments.dist.resolve(), EXAMPLES / "triton" / "dist", EXAMPLES / "simt" / "dist"]
    places += [arguments.large.resolve()] if arguments.large else []
    for place in (
        *places,
        tilec,
        *([arguments.before / "runtime" / "tilec_runtime"] if arguments.before else []),
    ):
        compileall.compile_dir(place, quiet=2)
    paths = {
        name: [str(tilec.parent), *map(str, places)]
        for name in WAYS
        if name.startswith(tuple(arguments.only) or "") and (arguments.large or name != LARGE)
    }
    if arguments.before:
        paths["tilec, before"] = [str(arguments.before.resolve() / "runtime"), *map(str, places)]
    document: dict[str, Any] = {
        "schema_version": 1,
        "benchmark": "cold_start",
        "machine": {},
        "milliseconds": {},
        "times_tilec": {},
    }
    found: dict[str, list[list[float]]] = {name: [] for name in paths}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "numba_saxpy.py").write_text(NUMBA, encoding="utf-8")
        here = str(Path(__file__).resolve().parent)
        document["machine"], error = Process(f"HERE = {here!r}\n{FACTS}", [], Path(folder)).end(
            arguments.limit
        )
        if error:
            print(f"no GPU, nothing was measured: {error}", file=sys.stderr)
            return 3
        head = f"KERNEL, PTX, FOLDER, EXAMPLES = {KERNEL!r}, {compiled()!r}, {folder!r}, {str(EXAMPLES)!r}\n{BEFORE}"
        for turn in range(arguments.repeats + 1):  # the first one warms caches and the disk
            names = [
                name for name in paths if "error" not in document["milliseconds"].get(name, {})
            ]
            names = (
                names[turn % len(names) :] + names[: turn % len(names)]
            )  # who goes first finds the machine as the last turn left it
            code = {
                name: f"{SETUP.get(name, '')}{GO}{WAYS[name.partition(', before')[0]]}{AFTER}"
                for name in names
            }
            ready = [
                Process(
                    f"TILEC = {paths[name][0]!r}\n{head}{code[name]}", paths[name], Path(folder)
                )
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
                    document["times_tilec"] = ratios(document["milliseconds"])
                    arguments.out.write_text(
                        json.dumps(document, indent=2) + "\n", encoding="utf-8"
                    )
                    print(f"{turn} {name:32} {document['milliseconds'][name]}", flush=True)
    print(
        f"times what tilec takes: {document['times_tilec']} (wanted: at least {WANTED} for Triton with a warm cache)"
    )
    return int(document["times_tilec"].get("Triton, warm cache", WANTED) < WANTED)


class Process:
    """One that gets ready, waits until it is let go, and prints what it measured."""

    def __init__(self, code: str, path: list[str], folder: Path) -> None:
        """Start it."""
        caches = {
            "TRITON_CACHE_DIR": str(folder / "triton"),
            "CUPY_CACHE_DIR": str(folder / "cupy"),
        }
        environment = {
            **os.environ,
            **caches,
            "PYTHONPATH": os.pathsep.join([*path, *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], env=environment, text=True, **pipes
        )

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
    """Medians in milliseconds, and of how many turns."""
    parts = [statistics.median(turn[part] for turn in turns) * 1e3 for part in range(3)]
    whole = [sum(turn) * 1e3 for turn in turns]
    return {
        "import": round(parts[0], 1),
        "load": round(parts[1], 1),
        "launch and wait": round(parts[2], 1),
        "together": round(statistics.median(whole), 1),
        "most": round(max(whole), 1),
        "least": round(min(whole), 1),
        "turns": len(turns),
    }


def ratios(rows: dict[str, dict[str, Any]]) -> dict[str, float]:
    """How many times what tilec takes each way takes whose kernel is the same."""
    both = {name: (rows.get(name, {}), rows.get(own, {})) for name, own in PAIRS.items()}
    return {
        name: round(a["together"] / b["together"], 1)
        for name, (a, b) in both.items()
        if "together" in a and "together" in b
    }


if __name__ == "__main__":
    sys.exit(main())
