"""examples/pipelines as a reader has it: every program on the cpu device, and on a pretended GPU
those whose languages need one.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Cli, copied
from tilec_runtime import use_device

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pipelines"
MODULES = ("common", "reference", "pipelines")
ON_CPU = {
    "scale_op": "PASS: the tile half on the cpu device: CUDA C++ and SIMT Python need a GPU",
    "three_languages": "PASS: a graph of 1 tile kernel, replayed 3 times on the cpu device: CUDA C++ and SIMT Python need a GPU",
    "mlp": "PASS: 6 requests to an MLP of 3 layers, over 3 streams",
    "torch_in_out": "PASS: NumPy's arrays in and out (torch is not installed)",
    "data_parallel": "PASS: a batch of 64 in 2 parts, on cpu stream 0 and cpu stream 1",
}


def built(root: Path, cli: Cli, *arguments: str) -> Path:
    copied(EXAMPLE, root)
    cli.good(root, "build", "-j", "1", *arguments)
    return root


@pytest.fixture(scope="module")
def portable(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    return built(
        tmp_path_factory.mktemp("pipelines") / "project",
        cli,
        "--targets",
        "tileir",
        "--select",
        "layer",
    )


@contextlib.contextmanager
def program(root: Path, name: str) -> Iterator[Any]:
    """A program of the example, as a module that is forgotten afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        for folder in (root, root / "dist"):
            patch.syspath_prepend(str(folder))
        try:
            yield importlib.import_module(name)
        finally:
            for module in (name, *MODULES):
                sys.modules.pop(module, None)


def run(root: Path, cli: Cli, code: str) -> subprocess.CompletedProcess[str]:
    """Python in the built project, in a process of its own: streams of the cpu device are threads,
    and what waits too long is ended.
    """
    env = {
        **cli.env,
        "PYTHONPATH": os.pathsep.join(
            (str(root / "dist"), str(root), *filter(None, [cli.env.get("PYTHONPATH", "")]))
        ),
    }
    command = [sys.executable, "-c", f"import sys; sys.modules['torch'] = None\n{code}"]
    return subprocess.run(
        command, cwd=root, env=env, capture_output=True, encoding="utf-8", check=False, timeout=120
    )


def test_every_program_on_the_cpu_device(portable: Path, cli: Cli) -> None:
    """As on a machine without a GPU, which this one may be or not."""
    lines = [
        "from tilec_runtime.errors import NoDeviceError",
        "from tilec_runtime.device import driver as _driver",
    ]
    lines += ["def none(): raise NoDeviceError('there is no GPU')", "_driver.driver = none"]
    lines += [f"import {name}; {name}.run({name}.main)" for name in ON_CPU]
    done = run(portable, cli, "\n".join(lines))
    assert (done.returncode, done.stdout.splitlines()) == (0, list(ON_CPU.values())), done.stderr


def test_torchs_tensors(portable: Path) -> None:
    pytest.importorskip("torch")
    with program(portable, "torch_in_out") as module, use_device("cpu"):
        assert module.main() == "PASS: torch's tensors in, and tilec's out to torch, on cpu"


# On GPUs that are pretended: the kernels are their references, in host memory
