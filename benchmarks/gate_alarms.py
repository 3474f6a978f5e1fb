"""How often the gate of `tilec bench` is wrong on a real device: pairs of runs of the same code,
and of code that is 8 % slower.

usage: PYTHONPATH=.:runtime python benchmarks/gate_alarms.py BUNDLE OUT.json [--pairs 200] [--device
cuda:0] [--samples FILE.npz]. BUNDLE is that of the examples. The slower code is the same kernel on
8 % more elements. `--device cpu` tries the program itself.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import time
from pathlib import Path

import numpy as np

from tilec.bench.clocks import Clocks, uuid_of
from tilec.bench.gate import Standing, settled
from tilec.bench.measure import MeasureOptions, measure_together
from tilec.bench.timer import KernelTimer
from tilec.case.device import KernelCall
from tilec_runtime import load
from tilec_runtime.device.devices import driver_of
from tilec_runtime.tensors.buffer import DeviceBuffer

LIMIT, PLANTED = 0.05, 0.08
ELEMENTS, TRIAL = 1 << 23, 1 << 12
OPTIONS = MeasureOptions(least=30, most=300, seconds=0.3, precise=0.01)


class Runs:
    """Measures vector_add, each time with memory and graphs of its own, as separate runs of the
    command would.
    """

    def __init__(self, bundle: str, device: str) -> None:
        self._driver, self._module = driver_of(device), load(bundle, device)
        self.name = self._module.device.name
        self._clocks = None if device == "cpu" else Clocks(uuid_of(self._module.device.ordinal))
        self.driver = self._clocks.driver if self._clocks else ""
        self._elements = TRIAL if device == "cpu" else ELEMENTS
        self.taken: list[tuple[float, ...]] = []
        self._host = (
            np.random.default_rng(0)
            .normal(size=int(self._elements * (1 + PLANTED)) + 16)
            .astype(np.float32)
        )

    def samples(self, more: float = 0.0) -> tuple[float, ...]:
        """Samples of one run, of a kernel with so much more to do."""
        count = int(self._elements * (1 + more)) // 16 * 16

        def make() -> list[KernelCall]:
            device, host = self._module.device, self._host[:count]
            arguments = {
                name: DeviceBuffer.from_host(host, device, driver=self._driver) for name in "zxy"
            }
            return [KernelCall(launcher=self._module.vector_add, arguments=arguments, axes={})]

        timer = KernelTimer(self._module.device, self._driver, make, clocks=self._clocks)
        with contextlib.closing(timer):
            (found,) = measure_together([timer], OPTIONS, clock=time.perf_counter)
        self.taken.append(found.samples)
        return found.samples


def main() -> int:
    """Compare, and write what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("bundle", help="the bundle of the examples")
    parser.add_argument("out", type=Path, help="where to write the JSON")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin no further pair after so many"
    )
    parser.add_argument(
        "--samples",
        type=Path,
        help="keep every sample of every run here too, to try other statistics on",
    )
    arguments = parser.parse_args()
    runs, begun = Runs(arguments.bundle, arguments.device), time.monotonic()
    counts = {"false_alarms": 0, "caught": 0, "unclear": 0}
    ratios: list[float] = []
    slowed: list[float] = []
    while len(ratios) < arguments.pairs and time.monotonic() - begun < arguments.seconds:
        saved = runs.samples()
        same = settled(saved, runs.samples(), runs.samples, LIMIT)
        slower = settled(saved, runs.samples(PLANTED), lambda: runs.samples(PLANTED), LIMIT)
        counts["false_alarms"] += same.standing is Standing.SLOWER
        counts["caught"] += slower.standing is Standing.SLOWER
        counts["unclear"] += Standing.UNCLEAR in (same.standing, slower.standing)
        ratios.append(same.ratio)
        slowed.append(slower.ratio)
    found = {
        "schema_version": 1,
        "benchmark": "gate_alarms",
        "device": runs.name,
        "driver": runs.driver,
        "pairs": len(ratios),
        "limit": LIMIT,
        "planted": PLANTED,
        **counts,
        "runs": len(runs.taken),
        "seconds": time.monotonic() - begun,
        "ratios_of_equal_code": ratios,
        "ratios_of_slower_code": slowed,
    }
    arguments.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    if arguments.samples:
        np.savez_compressed(arguments.samples, *(np.array(samples) for samples in runs.taken))
    print(json.dumps({key: value for key, value in found.items() if not key.startswith("ratios_")}))
    return (
        0
        if counts["false_alarms"] <= len(ratios) // 100 and counts["caught"] >= 0.95 * len(ratios)
        else 1
    )


if __name__ == "__main__":
    sys.exit(main())
