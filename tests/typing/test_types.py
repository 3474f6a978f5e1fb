"""Type checkers on a generated package: mypy strict and pyright pass on right uses, and refuse each wrong one at its line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GOLDEN = HERE.parent / "golden" / "sample" / "__init__.py"
RIGHT = ("right_uses.py", "right_ops.py", "right_launches.py")
WRONG = re.compile(r"# wrong: (.+)$")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A directory with the golden package as `sample`, and the files that use it."""
    folder = tmp_path_factory.mktemp("typing")
    (folder / "sample").mkdir()
    shutil.copy(GOLDEN, folder / "sample" / "__init__.py")
    (folder / "sample" / "py.typed").touch()
    for file in (*RIGHT, "wrong_uses.py"):
        shutil.copy(HERE / file, folder / file)
    return folder


def wrong_lines():
    lines = (HERE / "wrong_uses.py").read_text().split("\n")
    return {number for number, line in enumerate(lines, 1) if WRONG.search(line)}


def mypy(folder, *files):
    command = [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.10", "--no-incremental", "--cache-dir", os.devnull, *files]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def pyright(folder, file):
    config = {"include": [file], "extraPaths": [str(ROOT)], "pythonVersion": "3.10", "typeCheckingMode": "strict"}
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        pytest.skip(f"pyright cannot start: {(done.stderr or done.stdout).strip()[-200:]}")
    return [entry for entry in report["generalDiagnostics"] if entry["severity"] == "error"]


def test_mypy_accepts_the_package_and_right_uses(project):
    done = mypy(project, "sample", *RIGHT)
    assert (done.stdout.strip(), done.returncode) == ("Success: no issues found in 4 source files", 0)


def test_mypy_refuses_every_wrong_use(project):
    done = mypy(project, "wrong_uses.py")
    assert {int(line.split(":")[1]) for line in done.stdout.split("\n") if ": error:" in line} == wrong_lines()


def test_pyright_accepts_the_package(project):
    assert pyright(project, "sample") == []


@pytest.mark.parametrize("file", RIGHT)
def test_pyright_accepts_right_uses(project, file):
    assert pyright(project, file) == []


def test_pyright_refuses_every_wrong_use(project):
    assert {entry["range"]["start"]["line"] + 1 for entry in pyright(project, "wrong_uses.py")} == wrong_lines()
