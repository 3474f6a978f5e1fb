"""Where a project lies changes nothing: equal bytes from two directories, hits after a move, a copy
that leaves the original alone.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.harness import ADD, HEAD, TWICE, TWICE_CU, Cli, tree, write

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
    """Also with line information and assertions, which hold file names, and without a cache that
    would hide it.
    """
    trees = []
    for root in (tmp_path / "here", tmp_path / ODD / "far" / "below"):
        write(root, MANIFEST, FILES)
        cli.good(root, "build", *EMIT, "--profile", profile, "--no-cache")
        trees.append(tree(root / "dist"))
    first, second = trees
    suffixes = {name.rpartition(".")[2] for name in first if not name.endswith("/SHA256SUMS")}
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
