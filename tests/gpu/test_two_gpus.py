"""What takes two GPUs of one machine: halves of a batch, each scheduled by its own policy.

examples/pipelines has to be built (`--targets sm_90`). With one GPU all of it is left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tilec_runtime import Device, SingleStream, api, use_device

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

ROOT = Path(__file__).resolve().parents[2]
PIPELINES = ROOT / "examples" / "pipelines"


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
