"""The scripts for GPU machines, where there is no GPU: they say what they need and fail with the
right code.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "gpu_tests.sh"


def test_without_a_gpu_nothing_is_run(tmp_path: Path) -> None:
    (tmp_path / "python").write_text(
        "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n"
    )
    (tmp_path / "python").chmod(0o755)
    done = subprocess.run(
        ["bash", str(SCRIPT), "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHON": str(tmp_path / "python")},
    )
    assert done.returncode == 3
    assert "No module named 'torch'" in done.stderr
    assert "nothing was run" in done.stderr


# A compute-sanitizer that runs nothing: it says what pytest would say of its tests, and what it
# would have found itself.
FAKE = """#!/bin/bash
echo "$@" > {folder}/asked
while [[ $1 != --log-file ]]; do shift; done
log=$2
for test in "$@"; do [[ $test == tests/* ]] && echo "$test {outcome} [ 50%]"; done
[[ -n "{summary}" ]] && echo "========= {summary}" > "$log"
exit {code}
"""


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("gpu_sanitize", SCRIPT.parent / "gpu_sanitize.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NOTHING = "ERROR SUMMARY: 0 errors"
HAZARDS = "RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)"


@pytest.mark.parametrize(
    ("summary", "outcome", "code", "clean"),
    [
        (NOTHING, "PASSED", 0, True),
        ("RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", "PASSED", 0, True),
        ("ERROR SUMMARY: 1 error", "PASSED", 0, False),
        ("ERROR SUMMARY: 10 errors", "PASSED", 0, False),
        (HAZARDS, "PASSED", 0, False),
        (NOTHING, "FAILED", 1, False),
        (NOTHING, "SKIPPED (no GPU)", 0, True),
        ("", "SKIPPED (no kernels)", 255, True),
        ("ERROR SUMMARY: 1 error", "SKIPPED (no kernels)", 0, False),
        (NOTHING, "came to nothing", 0, False),
        ("the target did not start", "PASSED", 0, False),
        ("", "PASSED", 0, False),
    ],
)
def test_findings_of_compute_sanitizer_and_failing_tests_are_no_success(
    script: Any, tmp_path: Path, summary: str, outcome: str, code: int, clean: bool
) -> None:
    path = tmp_path / "compute-sanitizer"
    path.write_text(FAKE.format(folder=tmp_path, summary=summary, outcome=outcome, code=code))
    path.chmod(0o755)
    result = script.followed(
        str(path),
        "racecheck",
        ["tests/gpu/test_x.py::one", "tests/gpu/test_x.py::two"],
        60.0,
        tmp_path,
    )
    assert script.clean(result) is clean
    assert (result["cut"], result["tests"], result["exit"]) == (False, 2, code)
    assert script.told(result).startswith(
        f"racecheck: {0 if 'nothing' in outcome else 2} of 2 tests ran, "
    )
    assert (
        (tmp_path / "asked")
        .read_text()
        .startswith("--tool racecheck --report-api-errors no --log-file ")
    )
