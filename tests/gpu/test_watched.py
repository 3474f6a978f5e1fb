"""`tilec profile`, `tilec debug` and `tilec sanitize` with NVIDIA's own tools, on bundles that need
no compiler here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.conftest import ROOT
from tilec.case.tools import find_outside_tool
from tilec.frontends.base import ToolSearch
from tilec_runtime.errors import ToolchainError

pytestmark = pytest.mark.gpu
WATCHED = ROOT / "tests" / "samples" / "watched"


def tilec(project: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from tilec.cli.main import main; main()", *args]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    return subprocess.run(
        command, cwd=project, env=env, capture_output=True, text=True, timeout=300, check=False
    )


def need(tool: str) -> None:
    try:
        find_outside_tool(
            tool,
            ToolSearch(path=os.environ.get("PATH", ""), cuda_home=os.environ.get("CUDA_HOME", "")),
        )
    except ToolchainError:
        pytest.skip(f"there is no {tool}")


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    """Kernels with planted defects, and kernels that one thing bounds, with a bundle of them."""
    shutil.copytree(WATCHED, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_a_launch_is_profiled(watched: Path) -> None:
    need("ncu")
    done = tilec(watched, "profile", "copied_wide/large", "--bundle", "watched.tilec")
    if "ERR_NVGPUCTRPERM" in done.stdout + done.stderr:
        pytest.skip("this user may not read the GPU's counters, and is told so")
    assert done.returncode == 0, done.stderr
    assert "Memory Throughput" in done.stdout, done.stdout  # ncu's own words
    assert (watched / ".tilec" / "profile" / "copied_wide.large.ncu-rep").stat().st_size > 0


# Each case, the tool that finds its defect, and the source line with the defect.
DEFECTS = [
    ("beyond/tail", "memcheck", "four elements behind the end"),
    # y ends where the driver may put x: memcheck finds it because of the padding between them.
    ("beyond/neighbour", "memcheck", "four elements behind the end"),
    ("skewed/some", "memcheck", "16 bytes at an address that 4 divides"),
    ("narrow/some", "memcheck", "there is no such shared memory"),
    ("unset/some", "initcheck", "nothing has written y"),
    ("parted/some", "synccheck", "the other half of the warp waits elsewhere"),
    ("turned/some", "racecheck", "no barrier in between"),
]


def line_of(file: str, text: str) -> int:
    return next(
        number
        for number, line in enumerate((WATCHED / file).read_text().splitlines(), 1)
        if text in line
    )


def sanitized(folder: Path, case: str, tool: str) -> subprocess.CompletedProcess[str]:
    need("compute-sanitizer")
    kernel, _, name = case.partition("/")
    done = tilec(
        folder,
        "sanitize",
        kernel,
        "--case",
        name,
        "--device",
        "cuda",
        "--tool",
        tool,
        "--bundle",
        "watched.tilec",
    )
    if "Device not supported" in done.stdout:
        pytest.skip("compute-sanitizer does not work on this machine")
    return done


@pytest.mark.parametrize(("case", "tool", "line"), DEFECTS)
def test_planted_defects_are_found_at_their_lines(
    watched: Path, case: str, tool: str, line: str
) -> None:
    done = sanitized(watched, case, tool)
    assert done.returncode == 86, done.stdout + done.stderr
    assert f"planted.cu:{line_of('planted.cu', line)}" in done.stdout, done.stdout


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
def test_a_good_kernel_is_clean(watched: Path, tool: str) -> None:
    done = sanitized(watched, "fine/some", tool)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_debugger_stops_in_the_kernel(watched: Path) -> None:
    need("cuda-gdb")
    orders = ("--ex", "run", "--ex", "info cuda kernels", "--ex", "kill")
    done = tilec(
        watched, "debug", "conflicted/some", "--bundle", "watched.tilec", "--batch", *orders
    )
    assert "Switching focus to CUDA kernel 0" in done.stdout, done.stdout + done.stderr
    assert "conflicted" in done.stdout, done.stdout + done.stderr
