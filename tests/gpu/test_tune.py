"""Measuring and tuning on a GPU: what a sample is, that caches are cold, and a kit that was
prepared where the compilers are.

The kit is that of `tests/samples/tuning`: there, `tilec tune --prepare softmax --target sm_90 -o
../../../dist/softmax.tune`. TILEC_GPU_KIT says where it lies, if not in dist/.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilec.bench.clocks import Clocks, uuid_of
from tilec_runtime import Device

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def kit() -> Path:
    path = Path(os.environ.get("TILEC_GPU_KIT", str(ROOT / "dist" / "softmax.tune"))).resolve()
    if not path.is_file():
        pytest.skip(
            f"there is no kit {path}: prepare tests/samples/tuning first, or set TILEC_GPU_KIT"
        )
    return path


def test_clocks_are_read_or_it_is_said_why_not() -> None:
    clocks = Clocks(uuid_of(0))
    reading = clocks.read()
    if clocks.missing:
        assert reading is None
        assert clocks.missing.startswith("the clocks cannot be read: ")
    else:
        assert reading is not None
        assert 100 < reading.sm < 5000
        assert 100 < reading.memory < 20000
        assert clocks.driver.count(".") >= 1


def tune(kit: Path, record: Path, *more: str, devices: str = "cuda:0") -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "tilec",
        "tune",
        "--measure",
        str(kit),
        "--device",
        devices,
        "--record",
        str(record),
        "--json",
    ]
    done = subprocess.run(
        [*command, *more], capture_output=True, encoding="utf-8", timeout=300, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    (kernel,) = json.loads(done.stdout)["kernels"]
    assert isinstance(kernel, dict)
    return kernel


def test_a_kit_is_tuned_here_and_gone_on_with(kit: Path, tmp_path: Path) -> None:
    """How many rows of 1024 a block takes at once, and how many blocks a multiprocessor, decides by
    a factor: tuning has to see that.
    """
    here = tmp_path / kit.name
    here.write_bytes(kit.read_bytes())
    written = tmp_path / "r.json"
    kernel = tune(here, written, "--search", "grid", "--budget", "2m")
    assert kernel["device"]["kind"] == "cuda"
    large = next(case for case in kernel["cases"] if case["name"] == "softmax/32m")
    right = [c for c in large["candidates"] if c["status"] == "measured"]
    times = {
        (c["point"]["ROWS"], c["point"]["occupancy"]): float(np.median(c["measurement"]["samples"]))
        for c in right
    }
    best = (large["best"]["ROWS"], large["best"]["occupancy"])
    assert times[best] <= 1.05 * min(times.values())
    assert max(times.values()) > 1.5 * times[best]
    assert {c["status"] for case in kernel["cases"] for c in case["candidates"]} <= {
        "measured",
        "pruned",
    }
    record = json.loads(written.read_text())
    (device,) = record["devices"]
    assert device["target"] == "sm_90"
    assert device["clocks"] or kernel["clocks_missing"]
    again = tune(here, written, "--search", "grid", "--resume")
    assert [case["best"] for case in again["cases"]] == [
        case["best"] for case in kernel["cases"]
    ] or again["cases"][0]["runoff"]
    samples = [c["measurement"] for case in kernel["cases"] for c in case["candidates"]]
    assert [c["measurement"] for case in again["cases"] for c in case["candidates"]] == samples


def test_two_gpus_share_a_tuning_and_find_what_one_finds(kit: Path, tmp_path: Path) -> None:
    if Device.count() < 2:
        pytest.skip("there is one GPU here")
    mine = tmp_path / kit.name
    mine.write_bytes(kit.read_bytes())
    both, alone = (
        tune(mine, tmp_path / f"{devices}.json", "--search", "grid", devices=devices)["cases"]
        for devices in ("cuda:0,cuda:1", "cuda:1")
    )
    for case in both:
        shares = Counter(
            candidate["device"]
            for candidate in case["candidates"]
            if candidate["status"] == "measured"
        )
        assert set(shares) == {"cuda:0", "cuda:1"}
        assert min(shares.values()) >= len(case["candidates"]) // 4
    for case, other in zip(both, alone, strict=True):
        assert {c["device"] for c in other["candidates"] if c["status"] == "measured"} == {"cuda:1"}
        assert [c["point"] for c in case["candidates"]] == [c["point"] for c in other["candidates"]]
        assert case["median_us"] == pytest.approx(other["median_us"], rel=0.1)
    (device,) = json.loads((tmp_path / "cuda:0,cuda:1.json").read_text())["devices"]
    assert len(device["entries"]) == len(both)
