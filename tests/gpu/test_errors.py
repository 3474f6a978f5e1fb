"""Failures of a GPU as programs meet them, each in a process of its own that does not outlive it:
`provoke.py` is what runs there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tilec_runtime.device.results import ADVICE, STICKY

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).resolve().parents[2]
# Seconds for a process that only starts, fails and ends.
PATIENCE = 90


def provoke(name: str, *arguments: str, noise: str = "", **environment: str) -> dict[str, Any]:
    """What one scenario printed; it ends by itself, with status 0 and nothing on standard error but
    what the kernel printed.
    """
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.provoke", name, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **environment},
        timeout=PATIENCE,
        check=False,
    )
    sys.stdout.write(
        f"{name} {environment}: {time.monotonic() - started:.1f} s\n{done.stdout}\n{done.stderr}\n"
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if not (noise and noise in line)] == []
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


FAULTS = {
    "illegal_address": {"CUDA_ERROR_ILLEGAL_ADDRESS"},
    "misaligned_address": {"CUDA_ERROR_MISALIGNED_ADDRESS"},
    "trap": {"CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_ILLEGAL_INSTRUCTION"},
    "assertion": {"CUDA_ERROR_ASSERT"},
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_kernel_that_fails_loses_the_context_and_every_later_call_says_so(name: str) -> None:
    found = provoke(name, noise="Assertion" if name == "assertion" else "")
    first = found["first"]
    assert first["class"] == "ContextLostError"
    assert first["result"] in FAULTS[name] <= STICKY
    assert (first["device"], first["again"]) == (0, False)
    assert first["what"].endswith(": the context of device 0 is lost")
    assert first["cause"].startswith(ADVICE[first["result"]][0])
    assert [launch.split(" (")[0] for launch in first["launches"]] == [name, "fine"], (
        "what was launched, the latest first"
    )
    assert first["op"].startswith(f"launch of {name}, created at ")
    assert "compute-sanitizer" in first["fix"] or name == "assertion"
    for call, error in found["later"].items():
        assert error["class"] == "ContextLostError", call
        assert error["again"], call
        assert (
            f"the context of device 0 is lost since {first['since']} gave {first['result']}"
            in error["what"]
        ), call
    assert found["done"]


def test_a_launch_that_is_waited_for_fails_itself() -> None:
    first = provoke("illegal_address", CUDA_LAUNCH_BLOCKING="1")["first"]
    assert first["class"] == "ContextLostError"
    assert first["what"].startswith(
        "illegal_address: the launch failed: CUDA_ERROR_ILLEGAL_ADDRESS"
    )
    assert (first["kernel"], first["launches"]) == ("illegal_address", ["illegal_address"])


REFUSALS = {
    "out_of_resources": ("DriverError", {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}),
    "beyond_its_bounds": ("DriverError", {"CUDA_ERROR_INVALID_VALUE"}),
    "too_much_shared_memory": ("DriverError", {"CUDA_ERROR_INVALID_VALUE"}),
    "cooperative_too_large": ("DriverError", {"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"}),
    "grid_too_large": ("DriverError", {"CUDA_ERROR_INVALID_VALUE"}),
    "unsupported_ptx": ("KernelCacheError", {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION"}),
    "invalid_ptx": ("KernelCacheError", {"CUDA_ERROR_INVALID_PTX"}),
    "ptx_of_another_gpu": (
        "KernelCacheError",
        {"CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_INVALID_PTX"},
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_refused_says_why_and_leaves_the_device_usable(name: str) -> None:
    kind, results = REFUSALS[name]
    found = provoke(name)
    first = found["first"]
    assert (first["class"], first["device"]) == (kind, 0)
    assert first["result"] in results
    assert (first["cause"], first["fix"]) == ADVICE[first["result"]]
    assert found["works"]


def test_a_cubin_of_another_architecture(dist: Path) -> None:
    (bundle,) = dist.glob("*.tilec")
    first = provoke("foreign_cubin", str(bundle))["first"]
    assert (first["class"], first["result"]) == ("KernelCacheError", "CUDA_ERROR_NO_BINARY_FOR_GPU")
    assert "another GPU architecture" in first["cause"]
