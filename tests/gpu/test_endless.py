"""A kernel that never ends, under `tilec run` on a GPU: its case is reported as hung, and ends the
run.

The bundle is built elsewhere: `python -m tests.gpu.test_endless build/endless`, and there `tilec
build`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.conftest import ROOT

pytestmark = pytest.mark.gpu

PROJECT = ROOT / "build" / "endless"
KERNEL = """
[kernel.{name}]
source = "k.cu:{name}"
args = ["y.ptr", "x.ptr", "i32(x.size)"]
params = {{ y = {{}}, x = {{}} }}
launch = {{ requires = ["y.size == x.size"], grid = ["cdiv(x.size, 256)"], block = [256] }}

[kernel.{name}.case.some]
inputs.y = {{ shape = [1024], dtype = "f32", dist = "empty" }}
inputs.x = {{ shape = [1024], dtype = "f32", dist = "ones" }}
"""
MANIFEST = """edition = 1

[package]
name = "endless"
version = "0.1.0"

[targets]
default = ["sm_90", "compute_80"]
"""
SOURCE = """extern "C" __global__ void first(float* y, const float* x, int n) { y[blockIdx.x * 256 + threadIdx.x] = 2 * x[threadIdx.x]; }
extern "C" __global__ void spins(float* y, const float* x, int n) {
    while (*(volatile const float*)x != 0.0f) { }
    y[0] = n;
}
extern "C" __global__ void last(float* y, const float* x, int n) { y[blockIdx.x * 256 + threadIdx.x] = 3 * x[threadIdx.x]; }
"""


def write(root: Path) -> None:
    """The project."""
    root.mkdir(parents=True, exist_ok=True)
    kernels = "".join(KERNEL.format(name=name) for name in ("first", "spins", "last"))
    (root / "tilec.toml").write_text(MANIFEST + kernels, encoding="utf-8")
    (root / "k.cu").write_text(SOURCE, encoding="utf-8")


def run(*words: str) -> Any:
    """What `tilec run --json` prints of the project's bundle on the GPU, its exit code and its
    seconds.
    """
    bundle = PROJECT / "dist" / "endless-0.1.0.tilec"
    if not bundle.is_file():
        pytest.skip(f"{bundle} is not there: build it first, as this file says")
    command = [
        sys.executable,
        "-m",
        "tilec",
        "-C",
        str(PROJECT),
        "run",
        "--bundle",
        str(bundle),
        "--device",
        "cuda",
        "--json",
        *words,
    ]
    began = time.monotonic()
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", timeout=120, check=False, cwd=ROOT
    )
    return done, time.monotonic() - began


def test_a_kernel_that_never_ends_costs_its_own_case(torch: Any) -> None:
    done, seconds = run("--timeout", "4")
    assert done.returncode == 1, done.stderr
    first, spins, last = json.loads(done.stdout)["cases"]
    assert [first["status"], spins["status"], last["status"]] == ["ran", "hung", "skipped"]
    assert (
        "it hangs in kernel spins, grid (4, 1, 1), block (256, 1, 1)" in spins["error"]["message"]
    )
    assert seconds < 60
    alone, _ = run("last")
    assert alone.returncode == 0, alone.stderr


if __name__ == "__main__":
    write(Path(sys.argv[1]))
