"""The programs of examples/pipelines on a GPU, each in a process of its own, as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilec_runtime import devices
from tilec_runtime.errors import NoDeviceError

pytestmark = pytest.mark.gpu

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pipelines"
PROGRAMS = {
    "three_languages": "PASS: tile, CUDA C++ and SIMT Python in one graph of 3 kernels, replayed 3 times",
    "mlp": "PASS: ",
    "data_parallel": "PASS: a batch of 64 in 2 parts, on cuda:0",
    "scale_op": "PASS: tile -> CUDA C++, 61 x 45, as a chain",
    "torch_in_out": "PASS: ",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_passes(name: str) -> None:
    try:
        gpus = len(list(devices()))
    except NoDeviceError as error:
        pytest.skip(error.what)
    dist = Path(os.environ.get("TILEC_PIPELINES_DIST", str(EXAMPLE / "dist"))).resolve()
    if not (dist / "pipelines" / "__init__.py").is_file():
        pytest.skip(
            f"there is no package in {dist}: build it first, with `tilec build` in examples/pipelines, or set TILEC_PIPELINES_DIST"
        )
    path = os.pathsep.join((str(dist), str(EXAMPLE.parents[1]), os.environ.get("PYTHONPATH", "")))
    done = subprocess.run(
        [sys.executable, f"{name}.py"],
        cwd=EXAMPLE,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(PROGRAMS[name])
    assert "the cpu device" not in done.stdout
    if name == "data_parallel":
        assert ("cuda:0 and cuda:1" in done.stdout) is (gpus > 1)
