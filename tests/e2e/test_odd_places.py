"""Commands in odd places: a project with files that are called as modules are, a directory that may
only be read, optimized Python.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.harness import ADD, ADD_PY, HEAD, TWICE, Cli, tree, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

MANIFEST = (
    HEAD.replace('["sm_90"]', '["sm_90", "tileir"]', 1)
    + TWICE
    + ADD
    + '[kernel.add.case.some]\ninputs = { x = { shape = [256] }, z = { shape = [256] } }\nreference = "refs.py:add"\n'
)
REFS = "import numpy as np\n\n\ndef add(x):\n    return np.add(x, 1)\n"
SHADOWS = ("numpy.py", "click.py", "json.py", "tempfile.py", "cuda/__init__.py")
COMMANDS = {
    "tilec": (str(Path(sys.executable).with_name("tilec")),),
    "python -m": (sys.executable, "-m", "tilec"),
}


@pytest.mark.parametrize("how", ["tilec", pytest.param("python -m", marks=pytest.mark.long)])
def test_files_of_a_project_hide_no_modules_of_tilec(cli: Cli, tmp_path: Path, how: str) -> None:
    shadows = (*SHADOWS, "tilec.py") if how == "tilec" else SHADOWS
    root = write(
        tmp_path,
        MANIFEST,
        {
            "refs.py": REFS,
            **dict.fromkeys(shadows, "raise SystemExit('a file of the project was run')\n"),
        },
    )
    for words in (["check"], ["build", "--force"], ["run", "add", "--device", "cpu"]):
        done = subprocess.run(
            [*COMMANDS[how], *words],
            cwd=root,
            env=cli.env,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "was run" not in done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize("level", ["2"])
def test_python_optimization_changes_no_byte(cli: Cli, tmp_path: Path, level: str) -> None:
    """Compilers read docstrings and assertions, of their own and of kernels."""
    source = ADD_PY.replace("    i = ct.bid(0)", '    """Add one."""\n    i = ct.bid(0)')
    plain, other = (
        write(tmp_path / name, MANIFEST, {"refs.py": REFS, "k/add.py": source})
        for name in ("plain", "other")
    )
    cli.good(plain, "build", "--no-cache")
    cli.good(other, "build", "--no-cache", PYTHONOPTIMIZE=level)
    assert tree(other / "dist") == tree(plain / "dist")
    cli.good(other, "run", "add", "--device", "cpu", PYTHONOPTIMIZE=level)
