"""Where a project lies changes nothing: equal bytes from two directories, hits after a move, and
from a project with files that are called as modules are, or by optimized Python.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.harness import ADD, ADD_PY, HEAD, TWICE, TWICE_CU, Cli, tree, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

MANIFEST = f"""{HEAD}
[frontend.cuda]
include = ["include"]
{TWICE}{ADD}"""
FILES = {
    "k/twice.cu": '#include "check.cuh"\n' + TWICE_CU.replace("if (i < n)", "check(i); if (i < n)"),
    "include/check.cuh": "__device__ void check(long long i) { assert(i >= 0); }\n",
    "k/add.py": "import cuda.tile as ct\n\nfrom k.helper import one\n\n\n@ct.kernel\ndef add(z, x, TILE: ct.Constant[int]):\n"
    "    ct.assert_(ct.bid(0) >= 0)\n    ct.store(z, (ct.bid(0),), ct.load(x, (ct.bid(0),), (TILE,)) + one())\n",
    "k/helper.py": "import cuda.tile as ct\n\n\n@ct.function\ndef one():\n    return 1.0\n",
}
EMIT = ("--emit", "bundle,package,wheel,fatbin,cubin,ptx", "--targets", "sm_80,compute_80,tileir")
ODD = "mein Projekt ü"


@pytest.mark.parametrize("profile", [pytest.param("release", marks=pytest.mark.long), "debug"])
def test_two_directories_give_equal_bytes(cli: Cli, tmp_path: Path, profile: str) -> None:
    """The builds have other numbers of workers, and no cache that would hide a difference.

    Line information and assertions hold file names.
    """
    trees = []
    for root, workers in ((tmp_path / "here", "1"), (tmp_path / ODD / "far" / "below", "3")):
        write(root, MANIFEST, FILES)
        cli.good(root, "build", *EMIT, "--profile", profile, "--no-cache", "-j", workers)
        trees.append(tree(root / "dist"))
    first, second = trees
    suffixes = {name.rpartition(".")[2] for name in first}
    assert suffixes == {"tilec", "py", "pyi", "typed", "whl", "fatbin", "cubin", "ptx"}
    assert {name for name in first if first[name] != second.get(name)} == set()
    assert str(tmp_path).encode() not in b"".join(first.values())


def test_a_moved_project_and_a_moved_cache_keep_every_hit(cli: Cli, tmp_path: Path) -> None:
    root, cache = write(tmp_path / "first", MANIFEST, FILES), tmp_path / "cache"
    assert len(cli.good(root, "build", *EMIT, TILEC_CACHE_DIR=str(cache)).jobs) == 4
    before = tree(root / "dist")

    moved = root.rename(tmp_path / ODD)
    assert cli.good(moved, "build", *EMIT, TILEC_CACHE_DIR=str(cache)).up_to_date
    shutil.rmtree(moved / "dist")
    assert cli.good(moved, "build", *EMIT, TILEC_CACHE_DIR=str(cache)).jobs == set()
    assert tree(moved / "dist") == before

    elsewhere = cache.rename(tmp_path / "elsewhere")
    shutil.rmtree(moved / "dist")
    assert cli.good(moved, "build", *EMIT, TILEC_CACHE_DIR=str(elsewhere)).jobs == set()
    assert tree(moved / "dist") == before
    kept = b"".join(tree(elsewhere).values())
    assert b"twice" in kept
    assert str(tmp_path).encode() not in kept


CHECKED = (
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
        CHECKED,
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
        write(tmp_path / name, CHECKED, {"refs.py": REFS, "k/add.py": source})
        for name in ("plain", "other")
    )
    cli.good(plain, "build", "--no-cache")
    cli.good(other, "build", "--no-cache", PYTHONOPTIMIZE=level)
    assert tree(other / "dist") == tree(plain / "dist")
    cli.good(other, "run", "add", "--device", "cpu", PYTHONOPTIMIZE=level)
