"""A project whose cases pytest collects: what passes, fails, is skipped or wrong, as its user sees
it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.harness import environment, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

MANIFEST = """edition = 1
[package]
name = "acme"
version = "1.0.0"
[targets]
default = ["tileir"]
[kernel.twice]
source = "k/twice.py"
matrix = { T = ["f32", "f16"], TILE = [128] }
launch = { requires = ["x.shape == z.shape"], grid = ["cdiv(z.shape[0], TILE)"] }
[kernel.twice.params]
z = { dtype = "T", rank = 1, out = true }
x = { dtype = "T", rank = 1 }
[kernel.twice.case.small]
inputs.x = { shape = [100], dtype = "T", dist = "ones" }
inputs.z = { shape = [100], dtype = "T", dist = "empty" }
reference = "k/reference.py:twice"
[kernel.twice.case.wrong]
inputs.x = { shape = [100], dtype = "f32", dist = "ones" }
inputs.z = { shape = [100], dtype = "f32", dist = "empty" }
reference = "k/reference.py:thrice"
[kernel.fill]
source = "k/fill.cu"
launch = { block = ["128"], grid = ["cdiv(y.size, 128)"] }
[kernel.fill.case.small]
inputs.y = { shape = [100], dtype = "f32", dist = "empty" }
"""
FILES = {
    "conftest.py": 'pytest_plugins = ["tilec.pytest_plugin"]\n',
    "k/twice.py": "import cuda.tile as ct\n\n\n@ct.kernel\ndef twice(z, x, TILE: ct.Constant[int]):\n"
    "    i = ct.bid(0)\n    ct.store(z, (i,), ct.load(x, (i,), (TILE,)) * 2)\n",
    "k/reference.py": "def twice(x):\n    return x * 2\n\n\ndef thrice(x):\n    return x * 3\n",
    "k/fill.cu": 'extern "C" __global__ void fill(float* y, int n) { int i = blockIdx.x * 128 + threadIdx.x; if (i < n) y[i] = 1; }\n',
}
Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    write(tmp_path, MANIFEST, FILES)
    env = environment(tmp_path_factory.mktemp("cache"))

    def call(*options: str, code: int = 0) -> str:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "--tilec-device",
            "cpu",
            *options,
        ]
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    return call


def test_cases_are_tests(run: Run, tmp_path: Path) -> None:
    printed = run("-v", "-rs", code=1)
    assert "tilec.toml::twice/small[f32] PASSED" in printed
    assert "tilec.toml::twice/small[f16] PASSED" in printed
    assert "tilec.toml::twice/wrong FAILED" in printed
    assert "z[0] is 2.0, expected 3.0; 100 of 100 elements are off" in printed
    assert "  >  z[0]     2         3      1" in printed
    assert "Traceback" not in printed
    assert "tilec.toml::fill/small SKIPPED" in printed
    assert "the cpu device" in printed
    assert "1 failed, 2 passed, 1 skipped" in printed

    # Kernels, languages and marks choose among them; what is only collected is not built. And
    # without a conftest.py, by pytest's own options.
    (tmp_path / "conftest.py").unlink()
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p tilec.pytest_plugin\n")
    (tmp_path / ".tilec").rename(tmp_path / "before")
    listed = run(
        "--collect-only",
        "-q",
        "--strict-markers",
        "-m",
        "tilec_kernel(name='twice') and not tilec_kernel(language='cuda') and not tilec_gpu",
        "-k",
        "small",
    )
    assert "tilec.toml::twice/small[f32]\ntilec.toml::twice/small[f16]\n" in listed
    assert "fill" not in listed
    assert not (tmp_path / ".tilec").exists()


@pytest.mark.long
def test_errors_are_told_as_the_command_does(run: Run, tmp_path: Path) -> None:
    kernel = tmp_path / "k/twice.py"
    kernel.write_text(kernel.read_text().replace("ct.load(x", "ct.loud(x"))
    printed = run(code=1)
    assert printed.count("k/twice.py:7:") == 2, "in full once, and in pytest's summary"
    assert printed.count("(see the first case of tilec.toml)") == 3
    assert "Traceback" not in printed
    (tmp_path / "tilec.toml").write_text(MANIFEST.replace("block = ", "blok = "))
    printed = run(code=2)
    assert "launch.blok" in printed
    assert "Traceback" not in printed
