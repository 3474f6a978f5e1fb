"""examples/pipelines as a reader has it: every program on the cpu device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.harness import Cli, copied

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pipelines"
ON_CPU = {
    "scale_op": "PASS: the tile half on the cpu device: CUDA C++ and SIMT Python need a GPU",
    "three_languages": "PASS: a graph of 1 tile kernel, replayed 3 times on the cpu device: CUDA C++ and SIMT Python need a GPU",
    "mlp": "PASS: 6 requests to an MLP of 3 layers, over 3 streams",
    "torch_in_out": "PASS: NumPy's arrays in and out (torch is not installed)",
    "data_parallel": "PASS: a batch of 64 in 2 parts, on cpu stream 0 and cpu stream 1",
}
# A machine without a GPU and torch, which this one may be or not.
BARE = """
import sys
from tilec_runtime.device import driver as _driver
from tilec_runtime.errors import NoDeviceError
def none():
    raise NoDeviceError("there is no GPU")
_driver.driver = none
sys.modules["torch"] = None
"""
WITH_TORCH = """
import torch_in_out
from tilec_runtime import use_device
with use_device("cpu"):
    print(torch_in_out.main())
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    root = copied(EXAMPLE, tmp_path_factory.mktemp("pipelines") / "project")
    cli.good(root, "build", "-j", "1", "--targets", "tileir", "--select", "layer")
    return root


def printed(root: Path, cli: Cli, code: str) -> list[str]:
    """Return the output of Python in the built project, in a process that a time limit ends.

    Streams of the cpu device are threads, so a deadlock would hang this process.
    """
    places = [str(root / "dist"), str(root), *filter(None, [cli.env.get("PYTHONPATH", "")])]
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env={**cli.env, "PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_program_on_the_cpu_device(project: Path, cli: Cli) -> None:
    programs = "\n".join(f"import {name}; {name}.run({name}.main)" for name in ON_CPU)
    assert printed(project, cli, BARE + programs) == list(ON_CPU.values())


def test_torchs_tensors(project: Path, cli: Cli) -> None:
    pytest.importorskip("torch")
    assert printed(project, cli, WITH_TORCH) == [
        "PASS: torch's tensors in, and tilec's out to torch, on cpu"
    ]
