"""What takes two GPUs of one machine: halves of a batch, each scheduled by its own policy, and a
tuning that both share.

examples/pipelines has to be built (`--targets sm_90`); the kit is that of test_tune.py. With one
GPU all of it is left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tilec_runtime import Device, SingleStream, api, use_device

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

ROOT = Path(__file__).resolve().parents[2]
PIPELINES = ROOT / "examples" / "pipelines"
KIT = Path(os.environ.get("TILEC_GPU_KIT", str(ROOT / "dist" / "softmax.tune"))).resolve()


@pytest.fixture(autouse=True)
def _two() -> None:
    if Device.count() < 2:
        pytest.skip("there is one GPU here")


def test_halves_of_a_batch_run_on_the_devices_of_their_policies() -> None:
    if not (PIPELINES / "dist" / "pipelines").is_dir():
        pytest.skip(
            "examples/pipelines is not built: `tilec -C examples/pipelines build --targets sm_90`"
        )
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(PIPELINES / "dist"), os.environ.get("PYTHONPATH", ""))),
    }
    command = [sys.executable, "data_parallel.py"]
    done = subprocess.run(
        command,
        cwd=PIPELINES,
        env=environ,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "PASS: a batch of 64 in 2 parts, on cuda:0 and cuda:1\n"


def test_a_policy_decides_where_an_op_without_a_device_runs() -> None:
    policies = [SingleStream(Device(ordinal)) for ordinal in (0, 1)]
    host = np.arange(1 << 20, dtype=np.float32)
    futures = [api.from_host(host + number).schedule(policies[number % 2]) for number in range(8)]
    for number, future in enumerate(futures):
        tensor = future.result()
        assert tensor.device == number % 2
        np.testing.assert_array_equal(tensor.to_host(), host + number)
    with use_device(1):
        assert api.ones(10).sync().device == 1
    assert api.ones(10).sync().device == 0


@pytest.mark.skipif(
    not KIT.is_file(),
    reason="there is no kit: prepare tests/samples/tuning first, or set TILEC_GPU_KIT",
)
def test_two_gpus_share_a_tuning_and_find_what_one_finds(tmp_path: Path) -> None:
    kit = tmp_path / KIT.name
    kit.write_bytes(KIT.read_bytes())
    command = [
        sys.executable,
        "-m",
        "tilec",
        "tune",
        "--measure",
        str(kit),
        "--search",
        "grid",
        "--json",
    ]
    found = {}
    for devices in ("cuda:0,cuda:1", "cuda:1"):
        more = ["--device", devices, "--record", str(tmp_path / f"{len(devices)}.json")]
        done = subprocess.run(
            [*command, *more],
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            cwd=ROOT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        (found[devices],) = json.loads(done.stdout)["kernels"]
    both, alone = found["cuda:0,cuda:1"]["cases"], found["cuda:1"]["cases"]
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
    (device,) = json.loads((tmp_path / "13.json").read_text())["devices"]
    assert len(device["entries"]) == len(both)
