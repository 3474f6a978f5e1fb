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


@pytest.mark.parametrize(
    ("summary", "tests", "code"),
    [
        ("ERROR SUMMARY: 0 errors", 0, 0),
        ("RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", 0, 0),
        ("ERROR SUMMARY: 1 error", 0, 1),
        ("ERROR SUMMARY: 10 errors", 0, 1),
        ("RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)", 0, 1),
        ("ERROR SUMMARY: 0 errors", 1, 1),
        ("the target did not start", 0, 1),
    ],
)
def test_findings_of_compute_sanitizer_and_failing_tests_fail_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, summary: str, tests: int, code: int
) -> None:
    sanitizer = tmp_path / "compute-sanitizer"
    sanitizer.write_text(
        f'#!/bin/bash\necho "$@" > {tmp_path}/asked\nwhile [[ $1 != --log-file ]]; do shift; done\n'
        f'echo "========= {summary}" > "$2"\nexit {tests}\n'
    )
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 0\n")
    for path in (sanitizer, python):
        path.chmod(0o755)
    monkeypatch.setenv("COMPUTE_SANITIZER", str(sanitizer))
    done = run("--sanitize", "racecheck", "--out", str(tmp_path / "out"), python=str(python))
    assert done.returncode == code, done.stdout + done.stderr
    assert summary in done.stdout
    asked = (tmp_path / "asked").read_text()
    assert asked.startswith("--tool racecheck ")
    assert "tests/gpu/test_programs.py" in asked


def test_tools_of_compute_sanitizer_are_known() -> None:
    done = run("--sanitize", "initcheck")
    assert done.returncode == 2
    assert "unknown tool: initcheck" in done.stderr


@pytest.mark.parametrize("name", ["gpu_cases.py"])
def test_help_of_the_python_scripts(name: str) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT.parent / name), "--help"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0
    assert "torch" in done.stdout
