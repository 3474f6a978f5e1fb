"""A serving loop: 20 kernels, a batch and lengths that change at each step, two captured graphs,
several threads.

usage: python benchmarks/serving.py OUT.json [--seconds 60] [--threads 4] [--way tilec|triton ...]
[--programs benchmarks/programs/dist] [--device cpu]. Needs tilec_programs in --programs. A step
launches the 20 kernels on the new tokens of its batch, replays one of two graphs of the same
kernels, and waits. Every way runs in a process of its own. Exits with 1 where memory grew by more
than --allowed bytes. With `--device cpu` the loop runs on the cpu device, in order to try it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from program_cases import Step, growth, percentile, steps

HERE = Path(__file__).resolve().parent
LAYERS, HIDDEN, BATCH, MOST, WARM_STEPS, NOTED = 5, 64, 32, 64, 200, 1 << 17
DECODE = (8, 32)  # tokens of the captured graphs
NAMES = [f"{name}_{layer}" for layer in range(LAYERS) for name in ("add", "scale", "shift", "gate")]
Advance = Callable[[Step], None]


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path, help="where to write the JSON")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each way")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--way", nargs="*", default=["tilec", "triton"], choices=sorted(WAYS))
    parser.add_argument(
        "--programs", type=Path, default=HERE / "programs" / "dist", help="folder of tilec_programs"
    )
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument(
        "--allowed",
        type=int,
        default=1 << 20,
        help="bytes by which the memory of a process may grow",
    )
    parser.add_argument("--alone", action="store_true", help="one way in this process")
    arguments = parser.parse_args()
    if arguments.alone:
        sys.path[:0] = [str(arguments.programs.resolve()), str(HERE / "programs")]
        document = served(WAYS[arguments.way[0]], arguments)
    else:
        rows = {way: apart(way, arguments) for way in arguments.way}
        document = {
            "schema_version": 1,
            "benchmark": "serving",
            "device": arguments.device,
            "rows": rows,
        }
        if {"tilec", "triton"} <= {way for way, row in rows.items() if "error" not in row}:
            document["times_triton"] = round(
                rows["tilec"]["steps_per_second"] / rows["triton"]["steps_per_second"], 3
            )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(document, indent=2))
    grown = document.get("rows", {}).get("tilec", {}).get("grown_bytes", 0)
    return int(grown > arguments.allowed)


def apart(way: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One way in a process of its own; a way that fails is a row with its error."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.json")
        numbers = [
            "--seconds",
            str(arguments.seconds),
            "--threads",
            str(arguments.threads),
            "--device",
            arguments.device,
        ]
        command = [
            sys.executable,
            __file__,
            str(out),
            "--alone",
            "--way",
            way,
            "--programs",
            str(arguments.programs),
            *numbers,
        ]
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            return {
                "error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            }
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found


def served(
    way: Callable[[str], Callable[[], Advance]], arguments: argparse.Namespace
) -> dict[str, Any]:
    """The loop of one way: steps per second of all threads, times of steps, growth of memory."""
    prepare = way(arguments.device)
    loops = [Loop(prepare(), seed) for seed in range(arguments.threads)]
    threads = [threading.Thread(target=loop.run) for loop in loops]
    for loop in loops:
        loop.warm()
    began = time.perf_counter()
    for loop in loops:
        loop.end = began + arguments.seconds
    for thread in threads:
        thread.start()
    samples: list[tuple[float, int]] = []
    while any(thread.is_alive() for thread in threads):
        samples.append((time.perf_counter() - began, resident()))
        time.sleep(min(1.0, arguments.seconds / 40))
    for loop in loops:
        if loop.error is not None:
            raise loop.error
    taken = [value for loop in loops for value in loop.times[: loop.steps]]
    return {
        "threads": arguments.threads,
        "seconds": arguments.seconds,
        "steps_per_second": round(sum(loop.steps for loop in loops) / arguments.seconds, 1),
        "step_us": {
            "median": round(statistics.median(taken) / 1e3, 1),
            "p99": round(percentile(taken, 99) / 1e3, 1),
            "most": round(max(taken) / 1e3, 1),
        },
        "grown_bytes": growth(samples),
        "resident_bytes": samples[-1][1],
    }


class Loop:
    """The steps of one thread.

    Attributes:
        end: `time.perf_counter` after which no step begins.
        steps: how many were taken.
        times: nanoseconds of the last ones; the memory for them is there from the start, so that it
            is not what grows.
        error: what ended it.
    """

    def __init__(self, advance: Advance, seed: int) -> None:
        """Choose the steps by a seed."""
        self.end, self.steps, self.error = 0.0, 0, None
        self.times = array("q", bytes(8 * NOTED))
        self._advance = advance
        self._each = steps(seed=seed, batch=BATCH, most=MOST, graphs=len(DECODE))

    def warm(self) -> None:
        """Take the first steps, which compile, load and plan."""
        for _ in range(WARM_STEPS):
            self._advance(next(self._each))

    def run(self) -> None:
        """Take steps until the end."""
        try:
            while time.perf_counter() < self.end:
                start = time.perf_counter_ns()
                self._advance(next(self._each))
                self.times[self.steps % NOTED] = time.perf_counter_ns() - start
                self.steps += 1
        except Exception as error:  # noqa: BLE001 (it is raised where the threads are joined)
            self.error = error


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


# ---- the ways: each prepares the process, and gives what prepares a thread, which gives what takes
# a step


def tilec(device: str) -> Callable[[], Advance]:
    """Launchers of the built package; arrays are torch's on a GPU, NumPy's on the cpu device."""
    import tilec_programs

    from tilec_runtime import CudaGraph, Stream, api, use_device

    module = tilec_programs.load(device)
    launchers = {name: module[name] for name in NAMES}

    def worker() -> Advance:
        stream = Stream(device)
        z, x, y, w = arrays(device)
        graphs = []
        for tokens in DECODE:
            with use_device(device):
                own = [api.ones((tokens, HIDDEN), dtype="f32").sync() for _ in range(3)]
                vector = api.ones((HIDDEN,), dtype="f32").sync().share()
            with CudaGraph.scope(stream) as scope:
                record_layers(scope, module.ops, own, vector)
            graphs.append(scope.graph)

        def advance(step: Step) -> None:
            n = step.tokens
            launch_layers(launchers, stream, z[:n], x[:n], y[:n], w)
            graphs[step.graph].replay(stream)
            stream.sync()

        return advance

    return worker


def arrays(device: str) -> tuple[Any, Any, Any, Any]:
    """Three matrices for the most tokens that a step has, and a vector."""
    if device == "cpu":
        import numpy as np

        z, x, y = (np.ones((BATCH * MOST, HIDDEN), np.float32) for _ in range(3))
        return z, x, y, np.ones(HIDDEN, np.float32)
    import torch

    z, x, y = (torch.ones(BATCH * MOST, HIDDEN, device=device) for _ in range(3))
    w = torch.ones(HIDDEN, device=device)
    torch.cuda.synchronize()
    return z, x, y, w


def launch_layers(launchers: Any, stream: Any, z: Any, x: Any, y: Any, w: Any) -> None:
    """The 20 kernels, whose launchers are by name."""
    for layer in range(LAYERS):
        launchers[f"add_{layer}"](z, x, y, stream=stream)
        launchers[f"scale_{layer}"](x, z, 0.5, stream=stream)
        launchers[f"shift_{layer}"](y, x, w, stream=stream)
        launchers[f"gate_{layer}"](z, x, y, 0.25, stream=stream)


def record_layers(scope: Any, ops: Any, own: list[Any], vector: Any) -> None:
    """The same 20 kernels as ops of a graph."""
    z, x, y = own
    for layer in range(LAYERS):
        z, x, y = scope.record(getattr(ops, f"add_{layer}")(z, x, y))
        x, z, _ = scope.record(getattr(ops, f"scale_{layer}")(x, z, 0.5))
        y, x, _ = scope.record(getattr(ops, f"shift_{layer}")(y, x, vector))
        z, x, y, _ = scope.record(getattr(ops, f"gate_{layer}")(z, x, y, 0.25))


def triton(_: str) -> Callable[[], Advance]:
    """The same kernels under Triton's JIT, each with a launcher of its own; graphs are torch's."""
    import torch
    import triton_kernels as kernels

    sources = {
        "add": kernels.add_rows,
        "scale": kernels.scale,
        "shift": kernels.shift,
        "gate": kernels.gate,
    }
    jitted = {
        f"{name}_{layer}": kernels.compiled(source)
        for layer in range(LAYERS)
        for name, source in sources.items()
    }

    def launch(z: Any, x: Any, y: Any, w: Any) -> None:
        rows = z.shape[0]
        grid = (-(-rows // 4), 1)
        for layer in range(LAYERS):
            jitted[f"add_{layer}"][grid](z, x, y, rows, HIDDEN, R=4, C=64)
            jitted[f"scale_{layer}"][grid](x, z, 0.5, rows, HIDDEN, R=4, C=64)
            jitted[f"shift_{layer}"][grid](y, x, w, rows, HIDDEN, R=4, C=64)
            jitted[f"gate_{layer}"][grid](z, x, y, 0.25, rows, HIDDEN, R=4, C=64)

    def worker() -> Advance:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            z, x, y = (torch.zeros(BATCH * MOST, HIDDEN, device="cuda") for _ in range(3))
            w = torch.ones(HIDDEN, device="cuda")
            graphs = []
            for tokens in DECODE:
                own = [torch.zeros(tokens, HIDDEN, device="cuda") for _ in range(3)]
                launch(*own, w)  # compiled before it is captured
                stream.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):
                    launch(*own, w)
                graphs.append((graph, own))

        def advance(step: Step) -> None:
            n = step.tokens
            with torch.cuda.stream(stream):
                launch(z[:n], x[:n], y[:n], w)
                graphs[step.graph][0].replay()
            stream.synchronize()

        return advance

    return worker


WAYS: dict[str, Callable[[str], Callable[[], Advance]]] = {"tilec": tilec, "triton": triton}

if __name__ == "__main__":
    sys.exit(main())
