"""What a machine lacks - compilers, a GPU, room on a disk, the right to write - is named, with the
next step.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import Disk
from tests.e2e.harness import ADD, HEAD, TWICE, Cli, edit, environment, tree, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

INSTALL = "  fix: pip install 'tilec[build]' (all compilers as wheels, no CUDA installation needed)"


@pytest.fixture
def bare(cli: Cli, tmp_path: Path) -> Cli:
    """The command on a machine without CUDA: no wheels (another `nvidia` package hides them), no
    CUDA_HOME, nothing on PATH.
    """
    hidden = tmp_path / "hidden" / "nvidia"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").touch()
    return Cli({**cli.env, "PYTHONPATH": str(hidden.parent), "PATH": str(tmp_path / "nothing")})


@pytest.mark.parametrize(
    ("manifest", "missing"), [(TWICE, "libnvrtc"), (ADD, "tileiras")], ids=["cuda", "tile"]
)
def test_no_compilers(bare: Cli, tmp_path: Path, manifest: str, missing: str) -> None:
    root = write(tmp_path / "project", HEAD + manifest)
    done = bare.process(root, "build")
    assert (done.code, done.out) == (3, "")
    first, second, *rest = done.err.split("\n")
    assert first.startswith(f"error: {missing}")
    assert first.endswith(" not found; looked for:")
    assert (
        second
        == "    site-packages/nvidia/cu13 (no CUDA wheels installed), CUDA_HOME (not set), PATH (no CUDA there)"
    )
    assert INSTALL in rest
    assert not (root / "dist").exists()
    shown = bare.process(root, "build", "--json")
    assert (shown.code, shown.json()["error"]["type"]) == (3, "ToolchainError")


@pytest.mark.parametrize(
    ("place", "words", "fix"),
    [
        (
            "dist",
            "cannot write {root}/dist/acme-1.0.0.tilec: File exists",
            "choose another output directory",
        ),
        (
            ".tilec",
            "{root}/.tilec is a file, where tilec keeps what it knows of the last build",
            "remove it, or rename it",
        ),
    ],
)
def test_a_file_in_the_way(cli: Cli, tmp_path: Path, place: str, words: str, fix: str) -> None:
    root = write(tmp_path, HEAD + TWICE)
    (root / place).write_text("in the way")
    done = cli(root, "build")
    assert done.code == 1
    assert done.err.split("error: ")[1].split("\n")[0] == words.format(root=root)
    assert f"  fix: {fix}\n" in done.err
    assert (root / place).read_text() == "in the way"


def test_a_bundle_beyond_its_bound(cli: Cli, tmp_path: Path) -> None:
    root = write(tmp_path, HEAD + '[output]\nmax-size = "1 KiB"\n' + TWICE)
    done = cli(root, "build")
    assert done.code == 1
    assert "more than max-size = 1.0 KiB; the largest kernels:\n  twice: " in done.err
    assert "  fix: build fewer variants or targets, or raise [output] max-size\n" in done.err
    assert tree(root / "dist") == {}


def test_a_file_system_that_may_only_be_read(cli: Cli, disk: Disk) -> None:
    """Nothing is built there; what needs no writing works."""
    place = disk("1m")
    root = write(place / "project", HEAD + TWICE)
    cli.good(root, "build")
    before = tree(root)
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True, timeout=120)
    done = cli(root, "build", "--force")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"error: cannot write {root}/.tilec: Read-only file system\n"
        "  cause: the file system is read-only\n"
        "  fix: make the project's directory writable, or build a copy of it\n"
    )
    assert "no problems" in cli.good(root, "check").out
    assert "twice-sm_90" in cli.good(root, "build", "--list").out
    cli.good(root, "inspect", "dist/acme-1.0.0.tilec", "--verify")
    assert tree(root) == before


@pytest.mark.parametrize("cached", [True, False], ids=["cache elsewhere", "no cache"])
def test_a_full_disk(tmp_path: Path, disk: Disk, cached: bool) -> None:
    """The last good output stays byte for byte, nothing half-written is left, and with room again
    the build works.
    """
    place = disk("96k")
    cli = Cli(environment(tmp_path / "cache" if cached else "off"))
    root = write(place / "project", HEAD + TWICE)
    cli.good(root, "build")
    before = tree(root / "dist")
    edit(root / "k" / "twice.cu", "2.0f", "9.0f")
    filler = place / "filler"
    filler.write_bytes(b"x" * (os.statvfs(place).f_bavail * 4096))
    done = cli(root, "build", "--targets", "sm_80,sm_86,sm_89,sm_90,compute_80")
    assert done.code == 1
    assert "No space left on device" in done.err
    assert "\n  cause: the disk is full" in done.err
    assert "\n  fix: " in done.err
    assert tree(root / "dist") == before
    assert not [path for path in place.rglob("*") if path.name.endswith(".tmp")]
    filler.unlink()
    cli.good(root, "build")
    assert tree(root / "dist") != before
