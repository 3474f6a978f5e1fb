"""Type checkers on a generated package: mypy strict and pyright pass on right uses, and refuse each
wrong one at its line.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GOLDEN = HERE.parent / "golden" / "sample"
RIGHT = ("right_uses.py", "right_ops.py", "right_launches.py")
WRONG = re.compile(r"# wrong: (.+)$")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A directory with the golden package as `sample`, and the files that use it."""
    folder = tmp_path_factory.mktemp("typing")
    # The module of operators needs torch, which is not in this environment.
    shutil.copytree(GOLDEN, folder / "sample", ignore=shutil.ignore_patterns("torch.py"))
    for file in (*RIGHT, "wrong_uses.py"):
        shutil.copy(HERE / file, folder / file)
    return folder


def wrong_lines(file):
    lines = (HERE / file).read_text().split("\n")
    return {number for number, line in enumerate(lines, 1) if WRONG.search(line)}


def mypy(folder, *files):
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-version",
        "3.10",
        "--no-incremental",
        "--cache-dir",
        os.devnull,
        *files,
    ]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )


def mypy_errors(folder, *files):
    """The lines of errors of each file with errors, all of them checked at once: most of the time
    goes into what they import.
    """
    done = mypy(folder, *files)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert f"(checked {len(files)} source files)" in done.stdout, done.stdout
    errors = defaultdict(set)
    for file, line in re.findall(r"^([^:\n]+):(\d+): error:", done.stdout, flags=re.MULTILINE):
        errors[file].add(int(line))
    return dict(errors)


def pyright_errors(folder, *files):
    """The same of pyright."""
    config = {
        "include": files,
        "extraPaths": [str(ROOT)],
        "pythonVersion": "3.10",
        "typeCheckingMode": "strict",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        pytest.skip(f"pyright cannot start: {(done.stderr or done.stdout).strip()[-200:]}")
    assert report["summary"]["filesAnalyzed"] == len(files)
    errors = defaultdict(set)
    for entry in report["generalDiagnostics"]:
        if entry["severity"] == "error":
            errors[Path(entry["file"]).relative_to(folder).as_posix()].add(
                entry["range"]["start"]["line"] + 1
            )
    return dict(errors)


CHECKERS = [pytest.param(mypy_errors, marks=pytest.mark.long), pyright_errors]


@pytest.mark.parametrize("errors", CHECKERS)
def test_the_package_and_right_uses_are_accepted_and_each_wrong_one_is_refused_at_its_line(
    project, errors
):
    assert errors(project, "sample/__init__.pyi", *RIGHT, "wrong_uses.py") == {
        "wrong_uses.py": wrong_lines("wrong_uses.py")
    }


@pytest.mark.long
def test_the_stub_tells_what_the_module_has(project):
    command = [sys.executable, "-m", "mypy.stubtest", "sample"]
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
