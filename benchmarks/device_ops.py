"""On a GPU: operations of one millisecond that overlap.

usage: python benchmarks/device_ops.py OUT.json. Needs torch, for the facts of the machine. Medians.
What ops cost the host: program_ops.py.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from common import gpu_machine

ROUNDS, OPS = 15, 4
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
    arguments = parser.parse_args()
    import torch

    if not torch.cuda.is_available():
        print("no GPU: nothing was measured", file=sys.stderr)
        return 3
    torch.zeros(1, device="cuda")
    document = {
        "schema_version": 1,
        "benchmark": "device_ops",
        "machine": gpu_machine(torch),
        "concurrency_ms": overlapping(),
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(document, indent=2))
    return 0


def overlapping() -> dict[str, Any]:
    """Milliseconds of 4 independent operations of 1 ms on few multiprocessors: over the default
    policy, and on one stream.
    """
    from tilec_runtime import (
        AsyncKernelLaunch,
        LaunchConfig,
        SingleStream,
        load_module_from_ptx,
        use_policy,
    )

    spin = load_module_from_ptx(SPIN).function("spin", ("u64",))

    def op() -> Any:
        return (
            AsyncKernelLaunch(spin)
            .push_arg(1_000_000)
            .set_launch_config(LaunchConfig(grid=8, block=32))
        )

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


if __name__ == "__main__":
    sys.exit(main())
