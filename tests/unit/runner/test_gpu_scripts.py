"""The scripts for GPU machines, where there is no GPU: they say what they need and fail with the right code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "gpu_tests.sh"


def run(*arguments: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHON": python}
    return subprocess.run(["bash", str(SCRIPT), *arguments], capture_output=True, text=True, check=False, timeout=60, env=env)


def test_help_says_how_bundles_get_there() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "tilec build" in done.stdout
    assert "--wheels" in done.stdout


def test_unknown_options_are_refused() -> None:
    done = run("--nope")
    assert done.returncode == 2
    assert "unknown option: --nope" in done.stderr


def test_without_a_gpu_nothing_is_run(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    done = run("--out", str(tmp_path / "out"), python=str(tmp_path / "python"))
    assert done.returncode == 3
    assert "No module named 'torch'" in done.stderr
    assert "nothing was run" in done.stderr


@pytest.mark.parametrize("name", ["gpu_cases.py"])
def test_help_of_the_python_scripts(name: str) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT.parent / name), "--help"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0
    assert "torch" in done.stdout
