"""On a GPU: chains of launches against a C loop, await against sync, and operations that overlap.

usage: python benchmarks/device_ops.py OUT.json [--dist dist] [--processes 7]. Needs the built package, torch (for the facts of the machine)
and a C compiler. Medians; what is compared takes turns in one run. Chains are measured in several processes, for these differ.
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
from gpu_launch import machine
from processes import merged, several

LINKS, ROUNDS, SMALL, TURNS, OPS = 1000, 15, 500, 9, 4
ELEMENTS = 256
SPIN = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry spin(.param .u64 ns)
{
    .reg .pred %p; .reg .b64 %d<4>;
    ld.param.u64 %d0, [ns];
    mov.u64 %d1, %globaltimer;
AGAIN:
    mov.u64 %d2, %globaltimer;
    sub.u64 %d3, %d2, %d1;
    setp.lt.u64 %p, %d3, %d0;
    @%p bra AGAIN;
    ret;
}
"""


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path, help="where to write the JSON")
    parser.add_argument("--dist", type=Path, default=Path(__file__).resolve().parents[1] / "dist", help="where tilec_examples lies")
    parser.add_argument("--processes", type=int, default=7, help="that chains are measured in; their medians count")
    parser.add_argument("--chain-only", action="store_true", help="one process, and nothing but chains")
    arguments = parser.parse_args()
    if arguments.chain_only:
        sys.path.insert(0, str(arguments.dist.resolve()))
        arguments.out.write_text(json.dumps(chain(importlib.import_module("tilec_examples"))), encoding="utf-8")
        return 0
    import torch

    if not torch.cuda.is_available():
        print("no GPU: nothing was measured", file=sys.stderr)
        return 3
    torch.zeros(1, device="cuda")
    sys.path.insert(0, str(arguments.dist.resolve()))
    package = importlib.import_module("tilec_examples")
    document = {
        "schema_version": 1,
        "benchmark": "device_ops",
        "machine": machine(torch),
        "chain_us_per_launch": merged(several(__file__, ["--chain-only", "--dist", str(arguments.dist)], arguments.processes)),
        "await": asyncio.run(awaiting(package)),
        "concurrency_ms": overlapping(),
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(document, indent=2))
    return 0


def chain(package: Any) -> dict[str, Any]:
    """Microseconds per launch of a chain of `then`, by what takes them; parts of it and direct launches in the same turns."""
    from tilec.runtime import Stream

    stream = Stream(0)
    module = package.load(0)
    add = package.vector_add
    loop_tensors = ways.own_tensors(ELEMENTS, stream=stream.handle)
    loop = ways.c_loop_of(module["vector_add"], stream.handle, *loop_tensors)
    known = module["vector_add"].bind(*loop_tensors)
    tensors = tuple(ways.own_tensors(ELEMENTS, stream=stream.handle))
    z, x, y = loop_tensors

    def enqueue(turn: Callable[[Any], Any]) -> dict[str, float]:
        nonlocal tensors
        start = time.perf_counter()
        op = add(*tensors)
        for _ in range(LINKS - 1):
            op = op.then(turn)
        built = time.perf_counter()
        tensors = op.enqueue_on(stream)
        executed = time.perf_counter()
        stream.sync()
        done = time.perf_counter()
        return {"build": built - start, "execute": executed - built, "together": executed - start, "together and wait": done - start}

    def ops_alone() -> float:
        nonlocal tensors
        start = time.perf_counter()
        for _ in range(LINKS):
            add(*tensors)  # dropped: it gives its tensors back
        return time.perf_counter() - start

    def waited(taken: float) -> float:
        stream.sync()
        return taken

    direct = ways.timed("m.vector_add(s, z, x, y)", m=module, s=stream, z=z, x=x, y=y)
    bound = ways.timed("k.launch(s)", k=known, s=stream)
    turns: list[dict[str, float]] = []
    for number in range(ROUNDS + 3):
        taken = {"C loop over cuLaunchKernel, same kernel and arguments": waited(loop(LINKS))}
        taken |= {f"chain, same tensors: {part}": value for part, value in enqueue(lambda zxy: add(*zxy)).items()}
        taken |= {
            f"chain, tensors change places: {part}": value for part, value in enqueue(lambda zxy: add(zxy[1], zxy[0], zxy[2])).items()
        }
        # Functions that do more than to pass on what they are given are called at each step.
        taken |= {f"chain, each function called: {part}": value for part, value in enqueue(lambda zxy: add(*zxy) if zxy else None).items()}
        taken["ops made and dropped"] = ops_alone()
        taken["direct launches"] = waited(direct(LINKS))
        taken["bound launches"] = waited(bound(LINKS))
        if number >= 3:
            turns.append(taken)
    base = next(iter(turns[0]))
    return {name: ratio([turn[name] for turn in turns], [turn[base] for turn in turns], 1e6 / LINKS) for name in turns[0]}


async def awaiting(package: Any) -> dict[str, Any]:
    """Microseconds of one small op, from the finished description to its result: by sync, by await, and by the parts of CUDA alone."""
    from tilec.runtime import Stream

    add = package.vector_add
    tensors = tuple(ways.own_tensors(ELEMENTS))
    module, stream = package.load(0), Stream(0)
    direct = ways.own_tensors(ELEMENTS, stream=stream.handle)
    found: dict[str, list[float]] = {"launch and stream.sync": [], "sync": [], "await": [], "future().result()": []}
    for turn in range(TURNS + 1):
        start = time.perf_counter()
        for _ in range(SMALL):
            module.vector_add(stream, *direct)
            stream.sync()
        taken = {"launch and stream.sync": time.perf_counter() - start}
        for way in ("sync", "await", "future().result()"):
            taken[way] = 0.0
            for _ in range(SMALL):
                op = add(*tensors)
                start = time.perf_counter()
                tensors = op.sync() if way == "sync" else await op if way == "await" else op.future().result()
                taken[way] += time.perf_counter() - start
        if turn:
            for way, seconds in taken.items():
                found[way].append(seconds)
    return {way: ratio(each, found["sync"], 1e6 / SMALL, "times_sync") for way, each in found.items()}


def overlapping() -> dict[str, Any]:
    """Milliseconds of 4 independent operations of 1 ms on few multiprocessors: over the default policy, and on one stream."""
    from tilec.runtime import AsyncKernelLaunch, LaunchConfig, SingleStream, load_module_from_ptx, use_policy

    spin = load_module_from_ptx(SPIN).function("spin", ("u64",))

    def op() -> Any:
        return AsyncKernelLaunch(spin).push_arg(1_000_000).set_launch_config(LaunchConfig(grid=8, block=32))

    def futures(ops: list[Any]) -> None:
        for future in [made.future() for made in ops]:
            future.result()

    async def gathered(ops: list[Any]) -> None:
        start = time.perf_counter()
        await asyncio.gather(*ops)
        times.append(time.perf_counter() - start)

    times: list[float] = []
    found = {
        "one, sync": milliseconds(lambda: [op()], lambda ops: ops[0].sync()),
        "4 futures, default policy": milliseconds(lambda: [op() for _ in range(OPS)], futures),
    }
    for _ in range(ROUNDS + 3):
        asyncio.run(gathered([op() for _ in range(OPS)]))
    found["4 awaited together, default policy"] = round(statistics.median(times[3:]) * 1e3, 3)
    with use_policy(SingleStream()):
        found["4 futures, one stream"] = milliseconds(lambda: [op() for _ in range(OPS)], futures)
    return found


def milliseconds(make: Callable[[], list[Any]], run: Callable[[list[Any]], object]) -> float:
    """Median of running ops that were described before."""
    times = []
    for turn in range(ROUNDS + 3):
        ops = make()
        start = time.perf_counter()
        run(ops)
        if turn >= 3:
            times.append(time.perf_counter() - start)
    return round(statistics.median(times) * 1e3, 3)


def ratio(each: list[float], base: list[float], scale: float, word: str = "times_c_loop") -> dict[str, float]:
    """Median, and the median of the ratios within turns."""
    return {
        "median": round(statistics.median(each) * scale, 3),
        "minimum": round(min(each) * scale, 3),
        word: round(statistics.median(mine / other for mine, other in zip(each, base, strict=True)), 3),
    }


if __name__ == "__main__":
    sys.exit(main())
