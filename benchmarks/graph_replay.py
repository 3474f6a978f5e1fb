"""On a GPU: what a replay of 1,000 small kernels costs, next to torch.cuda.CUDAGraph of the same
kernels.

usage: python benchmarks/graph_replay.py OUT.json [--dist dist]. Needs the built bundle and torch.
Medians of 60 replays, each of which is waited for; all ways take turns in one run, and use the same
memory: where that lies changes small kernels by a tenth.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common import gpu_machine

KERNELS, ELEMENTS, ROUNDS, WARM = 1000, 256, 60, 10
TILEC, SAME = "tilec CudaGraph", "torch CUDAGraph of the same launches"


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path, help="where to write the JSON")
    parser.add_argument(
        "--dist",
        type=Path,
        default=Path(__file__).resolve().parents[1] / "dist",
        help="where the examples' bundle lies",
    )
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("torch is not installed: nothing was measured", file=sys.stderr)
        return 3
    if not torch.cuda.is_available():
        print("no GPU: nothing was measured", file=sys.stderr)
        return 3
    torch.zeros(1, device="cuda")
    from tilec_runtime import load

    module = load(next(arguments.dist.glob("*.tilec")), 0)
    tables = {
        "tile kernel (vector_add)": table(torch, *vector_add(torch, module)),
        "CUDA C++ kernel (elementwise)": table(torch, *elementwise(torch, module)),
    }
    document = {
        "schema_version": 1,
        "benchmark": "graph_replay",
        "machine": gpu_machine(torch),
        "kernels": KERNELS,
        "replay": tables,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(document, indent=2))
    return 0


def vector_add(torch: Any, module: Any) -> tuple[Any, Any, Any]:
    """The ops, the same launches for torch to capture, and torch's own kernels: all in the same
    memory.
    """
    from tilec_runtime import Tensor

    tz, tx, ty = (torch.ones(ELEMENTS, device="cuda") for _ in range(3))
    z, x, y = (Tensor.from_foreign(each) for each in (tz, tx, ty))
    shared = x.share(), y.share()

    def record(scope: Any) -> None:
        nonlocal z
        for _ in range(KERNELS):
            z = scope.record(module.ops.vector_add(z, *shared))[0]

    def launches() -> None:
        stream = torch.cuda.current_stream()
        for _ in range(KERNELS):
            module.vector_add(tz, tx, ty, stream=stream)

    def own() -> None:
        for _ in range(KERNELS):
            torch.add(tx, ty, out=tz)

    return record, launches, own


def elementwise(torch: Any, module: Any) -> tuple[Any, Any, Any]:
    """As `vector_add`, of a kernel of threads."""
    from tilec_runtime import Tensor

    tz, tx = (torch.ones(ELEMENTS, device="cuda") for _ in range(2))
    z, shared = Tensor.from_foreign(tz), Tensor.from_foreign(tx).share()

    def record(scope: Any) -> None:
        nonlocal z
        for _ in range(KERNELS):
            z = scope.record(module.ops.elementwise(z, shared, 2.0, 0.5))[0]

    def launches() -> None:
        stream = torch.cuda.current_stream()
        for _ in range(KERNELS):
            module.elementwise(tz, tx, 2.0, 0.5, stream=stream)

    def own() -> None:
        for _ in range(KERNELS):
            torch.mul(tx, 2.0, out=tz)

    return record, launches, own


def table(
    torch: Any, record: Callable[[Any], None], launches: Callable[[], None], own: Callable[[], None]
) -> dict[str, Any]:
    """Microseconds per kernel of each way."""
    from tilec_runtime import CudaGraph, Stream

    with CudaGraph.scope(Stream(0)) as scope:
        record(scope)
    graph, side = scope.graph, torch.cuda.Stream()
    assert graph.nodes == KERNELS
    ways: dict[str, Callable[[], None]] = {
        TILEC: lambda: graph.replay(side),
        SAME: captured(torch, launches),
        "torch CUDAGraph of torch's kernels": captured(torch, own),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    calls: dict[str, list[float]] = {name: [] for name in ways}
    with torch.cuda.stream(side):
        for turn in range(WARM + ROUNDS):
            names = list(ways)
            for name in (
                names[turn % 3 :] + names[: turn % 3]
            ):  # each is first, second and third as often
                seconds, host = timed(torch, ways[name])
                if turn >= WARM:
                    times[name].append(seconds / KERNELS * 1e6)
                    calls[name].append(host * 1e6)
        times["launches, without a graph"] = [
            timed(torch, launches)[0] / KERNELS * 1e6 for _ in range(ROUNDS // 3)
        ]
    rows: dict[str, Any] = {
        name: {"median_us": round(statistics.median(each), 4), "minimum_us": round(min(each), 4)}
        for name, each in times.items()
    }
    for name, each in calls.items():
        rows[name]["call_us"] = round(statistics.median(each), 2)
    ratios = [mine / theirs for mine, theirs in zip(times[TILEC], times[SAME], strict=True)]
    rows["tilec / torch, same kernels"] = round(statistics.median(ratios), 3)
    return rows


def timed(torch: Any, run: Callable[[], None]) -> tuple[float, float]:
    """Seconds until the device is done, with nothing else to do before; and until the call is back."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    back = time.perf_counter()
    torch.cuda.synchronize()
    return time.perf_counter() - start, back - start


def captured(torch: Any, work: Callable[[], None]) -> Callable[[], None]:
    """A replay of torch's graph of some work, on torch's current stream."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    replay: Callable[[], None] = graph.replay
    return replay


if __name__ == "__main__":
    sys.exit(main())
