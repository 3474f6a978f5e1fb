"""On a GPU: memory of the process and of the device's pool before and after very many launches, ops
and cancelled awaits.

usage: python benchmarks/leaks.py OUT.json [--dist dist] [--launches 1000000] [--awaits 100000].
Exits with 1 where memory has grown. Needs the built package. A tenth of each runs first, so that
what is kept on purpose (plans, events, memory of the pool) is there.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import launch_ways as ways
from device_ops import SPIN

ELEMENTS, BATCH = 256, 50
ALLOWED = 64 << 10  # bytes of the process that may come and go: arenas of malloc
ALLOWED_AWAITS = 2 << 20  # and what the event loop keeps


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path, help="where to write the JSON")
    parser.add_argument(
        "--dist",
        type=Path,
        default=Path(__file__).resolve().parents[1] / "dist",
        help="where tilec_examples lies",
    )
    parser.add_argument("--launches", type=int, default=1_000_000)
    parser.add_argument("--awaits", type=int, default=100_000)
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.dist.resolve()))
    package = importlib.import_module("tilec_examples")
    from tilec_runtime import Device

    works = {
        "launches": (launches(package), arguments.launches, ALLOWED),
        "launches of new tensors": (new_tensors(package), arguments.launches // 50, ALLOWED),
        "ops": (ops(package), arguments.launches // 10, ALLOWED),
        "cancelled awaits": (cancelled(package), arguments.awaits, ALLOWED_AWAITS),
    }
    rows: dict[str, dict[str, Any]] = {}
    document = {"schema_version": 1, "benchmark": "leaks", "device": Device(0).name, "works": rows}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    for name, (work, count, allowed) in works.items():
        rows[name] = grown(Device(0), work, count, allowed)
        arguments.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        print(f"{name:24} {rows[name]}", flush=True)
    return 0 if all(row["steady"] for row in rows.values()) else 1


def grown(device: Any, work: Callable[[int], int], count: int, allowed: int) -> dict[str, Any]:
    """What a work leaves behind; `allowed` is in bytes of the process."""
    work(count // 10)
    before = memory(device)
    start = time.perf_counter()
    done = work(count)
    seconds = time.perf_counter() - start
    after = memory(device)
    growth = {name: after[name] - before[name] for name in before}
    steady = growth["host"] <= allowed and growth["pool used"] == growth["pool reserved"] == 0
    return {
        "count": done,
        "seconds": round(seconds, 1),
        "growth in bytes": growth,
        "steady": steady,
    }


def memory(device: Any) -> dict[str, int]:
    """Bytes of the process, and of the device's pool, once all work is over."""
    device.sync()
    time.sleep(0.3)  # completion threads release what is done
    gc.collect()
    device.sync()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    device.driver.trim_pool(
        0, device.driver.default_pool(0), 0
    )  # it keeps what is freed, and that is no leak
    stats = device.driver.pool_stats(0, device.driver.default_pool(0))
    return {
        "host": pages * os.sysconf("SC_PAGE_SIZE"),
        "pool used": stats.used,
        "pool reserved": stats.reserved,
    }


def launches(package: Any) -> Callable[[int], int]:
    """Launches of the same tensors."""
    module = package.load(0)
    z, x, y = ways.own_tensors(ELEMENTS)

    def work(count: int) -> int:
        for _ in range(count):
            module.vector_add(z, x, y)
        return count

    return work


def new_tensors(package: Any) -> Callable[[int], int]:
    """Launches of tensors that are made for each of them."""
    module = package.load(0)

    def work(count: int) -> int:
        for _ in range(count):
            module.vector_add(*ways.own_tensors(ELEMENTS))
        return count

    return work


def ops(package: Any) -> Callable[[int], int]:
    """Chains of ten ops, run and waited for."""
    tensors = tuple(ways.own_tensors(ELEMENTS))

    def work(count: int) -> int:
        nonlocal tensors
        for _ in range(count // 10):
            op = package.ops.vector_add(*tensors)
            for _ in range(9):
                op = op.then(lambda zxy: package.ops.vector_add(*zxy))
            tensors = op.sync()
        return count // 10 * 10

    return work


def cancelled(package: Any) -> Callable[[int], int]:
    """Awaits that are cancelled while the device still works: each stream of the policy is kept
    busy meanwhile.
    """
    from tilec_runtime import AsyncKernelLaunch, LaunchConfig, load_module_from_ptx

    spin = load_module_from_ptx(SPIN).function("spin", ("u64",))

    def busy() -> Any:
        return (
            AsyncKernelLaunch(spin)
            .push_arg(10_000_000)
            .set_launch_config(LaunchConfig(grid=1, block=32))
        )

    async def batch() -> int:
        ops = [package.ops.vector_add(*ways.own_tensors(ELEMENTS)) for _ in range(BATCH)]
        held = [busy().future() for _ in range(4)]
        tasks = [asyncio.ensure_future(op) for op in ops]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for future in held:
            await future
        return sum(isinstance(result, asyncio.CancelledError) for result in results)

    async def many(count: int) -> int:
        done = without = 0
        while done < count:
            found = await batch()
            done += found
            without = 0 if found else without + 1
            if (
                without > 20
            ):  # now and then the machine is held up, and all work is done before it is cancelled
                raise RuntimeError("no await is cancelled before its work is done")
        return done

    return lambda count: asyncio.run(many(count))


if __name__ == "__main__":
    sys.exit(main())
