"""On a GPU: what ops and graphs add to launches: sync, await, steps of `then`, capture, one call of
a graph.

usage: python benchmarks/program_ops.py OUT.json [--dist dist] [--processes 5]. Needs torch and
tilec_examples in --dist. Medians; what is compared takes turns.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import launch_ways as ways
from common import gpu_machine
from processes import several
from program_cases import merged, turns

ELEMENTS, ROUNDS, SMALL, LINKS, CALLS = 256, 9, 500, 1000, 200
Tensors = tuple[Any, ...]


def main() -> int:
    """Measure and write."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path, help="where to write the JSON")
    parser.add_argument(
        "--dist", type=Path, default=here.parent / "dist", help="folder of tilec_examples"
    )
    parser.add_argument("--processes", type=int, default=5, help="whose medians count")
    arguments = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("no GPU: nothing was measured", file=sys.stderr)
        return 3
    document = {"schema_version": 1, "benchmark": "program_ops", "machine": gpu_machine(torch)}
    if arguments.processes > 1:
        alone = ["--processes", "1", "--dist", str(arguments.dist)]
        tables = [found["rows"] for found in several(__file__, alone, arguments.processes)]
        document["rows"] = {name: merged([one[name] for one in tables]) for name in tables[0]}
    else:
        torch.zeros(1, device="cuda")
        sys.path.insert(0, str(arguments.dist.resolve()))
        package = importlib.import_module("tilec_examples")
        document["rows"] = {
            "wait": asyncio.run(waiting(package)),
            "then": steps(package),
            "capture": captures(torch, package),
            "graph call": graph_calls(torch, package),
        }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for name, found in document["rows"].items():
        for way, numbers in found.items():
            print(f"{name:12} {way:44} {numbers}")
    return 0


def compared(
    seconds: dict[str, list[float]], scale: float, **pairs: tuple[str, str]
) -> dict[str, dict[str, Any]]:
    """Medians in microseconds, with what a way adds to another and how many times it takes.

    Args:
        seconds: of each way, by round.
        scale: divides them.
        pairs: of the ways to be compared: `key = (way, base)`, where `key` begins with `added` or
            `times`.
    """
    medians = {name: statistics.median(each) * 1e6 / scale for name, each in seconds.items()}
    rows: dict[str, dict[str, Any]] = {
        name: {"median_us": round(value, 3)} for name, value in medians.items()
    }
    for key, (way, base) in pairs.items():
        both = list(zip(seconds[way], seconds[base], strict=True))
        if key.startswith("added"):
            rows[way]["added_us"] = round(
                statistics.median(mine - other for mine, other in both) * 1e6 / scale, 3
            )
        else:
            rows[way]["times_base"] = round(
                statistics.median(mine / other for mine, other in both), 3
            )
        rows[way]["base"] = base
    return rows


async def waiting(package: Any) -> dict[str, dict[str, Any]]:
    """One small op and the wait for it, against a launch and the wait for its stream."""
    from tilec_runtime import Stream

    module, stream, add = package.load(0), Stream(0), package.ops.vector_add
    direct = ways.own_tensors(ELEMENTS, stream=stream.handle)
    tensors: Tensors = tuple(ways.own_tensors(ELEMENTS))
    times: dict[str, list[float]] = {
        "launch and stream.sync": [],
        "op.sync": [],
        "op built and op.sync": [],
        "await op": [],
    }

    def launched() -> float:
        start = time.perf_counter()
        for _ in range(SMALL):
            module.vector_add(*direct, stream=stream)
            stream.sync()
        return time.perf_counter() - start

    async def waited(way: str) -> float:
        nonlocal tensors
        taken = 0.0
        for _ in range(SMALL):
            begin = time.perf_counter()
            op = add(*tensors)
            start = begin if way.startswith("op built") else time.perf_counter()
            tensors = await op if way == "await op" else op.sync()
            taken += time.perf_counter() - start
        return taken

    for number, names in enumerate(turns(list(times), ROUNDS + 1)):
        for way in names:
            taken = launched() if way == "launch and stream.sync" else await waited(way)
            if number:
                times[way].append(taken)
    return compared(
        times,
        SMALL,
        added_sync=("op.sync", "launch and stream.sync"),
        added_built=("op built and op.sync", "launch and stream.sync"),
        added_await=("await op", "op.sync"),
    )


def steps(package: Any) -> dict[str, dict[str, Any]]:
    """A step of `then`, built and enqueued, against the same function and launcher in a `for` loop."""
    from tilec_runtime import Stream

    stream = Stream(0)
    module, add = package.load(0), package.ops.vector_add
    tensors: Tensors = tuple(ways.own_tensors(ELEMENTS, stream=stream.handle))
    direct: Tensors = tuple(ways.own_tensors(ELEMENTS, stream=stream.handle))

    def launched(zxy: Tensors) -> Tensors:
        module.vector_add(*zxy, stream=stream)
        return zxy

    def loop() -> None:
        zxy = direct
        for _ in range(LINKS):
            zxy = launched(zxy)

    def chain() -> None:
        nonlocal tensors
        op = add(*tensors)
        for _ in range(LINKS - 1):
            op = op.then(lambda zxy: add(*zxy))
        tensors = op.enqueue_on(stream)

    ways_of = {"for loop": loop, "then": chain}
    return compared(in_turns(ways_of, stream.sync), LINKS, added=("then", "for loop"))


def captures(torch: Any, package: Any) -> dict[str, dict[str, Any]]:
    """The capture of 1,000 launches into a graph that is ready to be launched, against torch's of
    the same launches.
    """
    from tilec_runtime import CudaGraph, Stream, Tensor

    module, stream = package.load(0), Stream(0)
    foreign = [torch.ones(ELEMENTS, device="cuda") for _ in range(3)]
    z, x, y = (Tensor.from_foreign(one) for one in foreign)
    shared = x.share(), y.share()

    def tilec() -> None:
        nonlocal z
        with CudaGraph.scope(stream) as scope:
            for _ in range(LINKS):
                z = scope.record(module.ops.vector_add(z, *shared))[0]

    def torchs() -> None:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(LINKS):
                torch.add(foreign[1], foreign[2], out=foreign[0])

    found = in_turns({"tilec": tilec, "torch, its own kernel": torchs}, torch.cuda.synchronize)
    return compared(found, LINKS, times=("tilec", "torch, its own kernel"))


def graph_calls(torch: Any, package: Any) -> dict[str, dict[str, Any]]:
    """One call that launches a graph of ten kernels, without the wait for it."""
    from tilec_runtime import CudaGraph, Stream, Tensor

    module = package.load(0)
    foreign = [torch.ones(ELEMENTS, device="cuda") for _ in range(3)]
    z, x, y = (Tensor.from_foreign(one) for one in foreign)
    shared = x.share(), y.share()
    with CudaGraph.scope(Stream(0)) as scope:
        for _ in range(10):
            z = scope.record(module.ops.vector_add(z, *shared))[0]
    graph, side, other = scope.graph, torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(other):
        for _ in range(10):
            torch.add(foreign[1], foreign[2], out=foreign[0])

    def calls(call: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(CALLS):
                call()

        return run

    with torch.cuda.stream(side):
        ways_of = {"tilec": calls(lambda: graph.replay(side)), "torch": calls(other.replay)}
        return compared(in_turns(ways_of, torch.cuda.synchronize), CALLS, times=("tilec", "torch"))


def in_turns(
    ways_of: dict[str, Callable[[], None]], wait: Callable[[], object]
) -> dict[str, list[float]]:
    """Seconds of each way in each round, the first of which warms up; the wait behind each is not
    counted.
    """
    times: dict[str, list[float]] = {name: [] for name in ways_of}
    for number, names in enumerate(turns(list(ways_of), ROUNDS + 1)):
        for name in names:
            wait()
            start = time.perf_counter()
            ways_of[name]()
            taken = time.perf_counter() - start
            wait()
            if number:
                times[name].append(taken)
    return times


if __name__ == "__main__":
    sys.exit(main())
