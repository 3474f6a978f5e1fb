"""`tilec bench` on a GPU: times that can be, rivals and ceilings, cold and hot caches of small
kernels, and a gate that stays quiet.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from tilec.bench.measure import MeasureOptions, measure, measure_together
from tilec.bench.timer import MOST_COPIES, TIMES_L2, KernelTimer
from tilec.case.device import KernelCall
from tilec_runtime import load
from tilec_runtime.device import driver as _driver
from tilec_runtime.tensors.buffer import DeviceBuffer

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

ROOT = Path(__file__).resolve().parents[2]
# Cases of the examples that are held against something.
RIVALS = ("1k", "1m", "4k", "16m")
SHORT = MeasureOptions(least=15, seconds=0.3)


@pytest.fixture(scope="module")
def bundle(dist: Path) -> Path:
    return next((dist / "tilec_examples").glob("*.tilec"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def bench(bundle: Path, cache: Path, *args: str) -> tuple[int, dict[str, Any]]:
    command = [
        sys.executable,
        "-m",
        "tilec",
        "bench",
        "--bundle",
        str(bundle),
        "--device",
        "cuda:0",
        "--json",
        *args,
    ]
    env = {**os.environ, "TILEC_CACHE_DIR": str(cache)}
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", timeout=240, cwd=ROOT, env=env, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return done.returncode, found


def test_times_rates_and_ceilings_are_such_as_can_be(bundle: Path, cache: Path) -> None:
    code, found = bench(
        bundle,
        cache,
        "vector_add",
        "softmax",
        "--case",
        "1m",
        "--case",
        "1k",
        "--seconds",
        "0.3",
        "--no-against",
    )
    assert code == 0
    assert 1e11 < found["ceilings"]["copy"] < 2e13
    for case in found["cases"]:
        assert case["status"] == "measured"
        assert (
            0 < case["time"]["interval"][0] <= case["time"]["median"] <= case["time"]["interval"][1]
        )
        assert 1e-6 < case["host_seconds"] < 1e-3
        if case["rates"]["share"] is not None:
            assert 0.005 < case["rates"]["share"] < 1.5
    kept = list((cache / "devices").glob("*.json"))
    assert len(kept) == 1
    before = kept[0].read_bytes()
    bench(bundle, cache, "vector_add", "--case", "odd", "--seconds", "0.1", "--no-against")
    assert kept[0].read_bytes() == before


def test_torch_takes_turns(bundle: Path, cache: Path, torch: Any) -> None:
    """Every function that an example is held against: each is called with what the case gives it."""
    code, found = bench(
        bundle,
        cache,
        "--seconds",
        "0.05",
        "--samples",
        "9",
        *(word for case in RIVALS for word in ("--case", case)),
    )
    assert code == 0
    assert found["ceilings"]["products"]["bf16"] > 1e12
    assert found["ceilings"]["by"] == f"torch {torch.__version__}"
    rivals = [rival for case in found["cases"] for rival in case["against"]]
    assert len(rivals) >= 16
    for rival in rivals:
        assert "reason" not in rival, rival["reason"]
        assert "note" not in rival, rival["note"]
        assert rival["interval"][0] <= rival["ratio"] <= rival["interval"][1]


def test_the_same_code_passes_the_gate(bundle: Path, cache: Path, tmp_path: Path) -> None:
    saved = str(tmp_path / "saved.json")
    chosen = ("vector_add", "softmax", "--seconds", "0.5", "--no-against")
    assert bench(bundle, cache, *chosen, "--save", saved)[0] == 0
    code, found = bench(bundle, cache, *chosen, "--against-saved", saved, "--fail-slower", "10%")
    assert code == 0, [case.get("change") for case in found["cases"]]
    assert all(case["change"]["same_image"] for case in found["cases"])


def adds(bundle: Path, count: int, *, cold: bool = True) -> KernelTimer:
    """Launches of vector_add, of so many elements."""
    module, driver = load(bundle, 0), _driver.driver()

    def make() -> list[KernelCall]:
        ones = np.ones(count, np.float32)
        arguments = {n: DeviceBuffer.from_host(ones, 0, driver=driver) for n in "zxy"}
        return [KernelCall(launcher=module.vector_add, arguments=arguments, axes={})]

    return KernelTimer(module.device, driver, make, cold=cold)


@pytest.mark.parametrize("count", [1 << 14, 1 << 18])
def test_small_kernels_are_slower_with_a_cold_cache(bundle: Path, count: int) -> None:
    """A few microseconds each: a sample is one graph, behind a write over the cache where it is
    flushed.
    """
    with closing(adds(bundle, count)) as cold, closing(adds(bundle, count, cold=False)) as hot:
        l2 = load(bundle, 0).device.l2
        copies = -(-TIMES_L2 * l2 // (3 * 4 * count)) + 1
        assert (cold.cache, hot.cache) == ("flushed" if copies > MOST_COPIES else "rotated", "hot")
        from_memory, from_cache = measure_together([cold, hot], SHORT, clock=time.perf_counter)
        host = cold.host_seconds(64, time.perf_counter)
    assert median(from_memory.samples) > median(from_cache.samples)
    assert host is not None
    assert median(from_cache.samples) < 20e-6


def test_eight_percent_more_work_is_seen(bundle: Path) -> None:
    times = []
    for count in (1 << 25, int(1.08 * (1 << 25)) // 16 * 16):
        with closing(adds(bundle, count)) as timer:
            times.append(measure(timer, SHORT, clock=time.perf_counter).summary.median)
    assert 1.05 < times[1] / times[0] < 1.11
