"""A cache that is damaged, write-protected, full or off costs time, never a build."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import Disk
from tests.e2e.harness import HEAD, TWICE, Cli, edit, environment, tree, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write(tmp_path / "project", HEAD + TWICE)


def images(cache: Path) -> list[Path]:
    """The files that hold images."""
    return [path for path in cache.glob("v*/images/*/*") if path.is_file()]


@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "other"])
def test_a_damaged_entry_is_reported_and_made_again(project: Path, tmp_path: Path, damage: str) -> None:
    cache = tmp_path / "cache"
    cli = Cli(environment(cache))
    cli.good(project, "build")
    before = tree(project / "dist")
    (entry,) = images(cache)
    data = bytearray(entry.read_bytes())
    if damage == "bit":
        data[-len(data) // 3] ^= 4
    entry.write_bytes({"bit": data, "cut": data[: len(data) // 2], "empty": b"", "other": b"not a cache entry" * 40}[damage])

    assert cli.good(project, "build").up_to_date
    shutil.rmtree(project / "dist")
    again = cli.good(project, "build")
    assert again.jobs == {"twice-sm_90"}
    assert again.err.startswith(f"note: cache entry {entry.name[:12]} was damaged (")
    assert again.err.split("\n")[0].endswith("): it is compiled again")
    assert tree(project / "dist") == before
    shutil.rmtree(project / "dist")
    healed = cli.good(project, "build")
    assert (healed.jobs, healed.err) == (set(), "")


def test_off_means_off(project: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    cli = Cli({**environment("off"), "HOME": str(home), "XDG_CACHE_HOME": ""})
    for _ in range(2):
        assert cli.good(project, "build", "--force").jobs == {"twice-sm_90"}
    assert list(home.iterdir()) == []
    assert not list((project / ".tilec").glob("spool-*"))
    assert cli.good(project, "build").up_to_date
    info = cli(project, "cache", "info")
    assert (info.code, info.err.split("\n")[0]) == (2, "error: the cache is off")


def test_no_cache_neither_reads_nor_writes(project: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cli = Cli(environment(cache))
    cli.good(project, "build", "--no-cache")
    assert images(cache) == []
    assert cli.good(project, "build", "--force").jobs == {"twice-sm_90"}
    edit(project / "k" / "twice.cu", "2.0f", "6.0f")
    assert cli.good(project, "build", "--no-cache").jobs == {"twice-sm_90"}


def test_a_file_where_the_cache_should_be(project: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("x")
    done = Cli(environment(tmp_path / "cache")).good(project, "build")
    assert done.jobs == {"twice-sm_90"}
    assert (
        f"note: the cache cannot be written (Not a directory: {tmp_path}/cache): this build goes on, the next one compiles again\n"
        in done.err
    )


def test_a_cache_that_may_only_be_read(project: Path, disk: Disk) -> None:
    """Hits are served from it; what is new is compiled, and the user hears once why it is not kept."""
    place = disk("1m")
    cli = Cli(environment(place / "cache"))
    cli.good(project, "build")
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True, timeout=120)
    shutil.rmtree(project / "dist")
    hit = cli.good(project, "build")
    assert (hit.jobs, hit.err) == (set(), "")
    edit(project / "k" / "twice.cu", "2.0f", "6.0f")
    new = cli.good(project, "build", "--targets", "sm_80,sm_90")
    assert new.jobs == {"twice-sm_80", "twice-sm_90"}
    assert new.err.count("note: the cache cannot be written (Read-only file system: ") == 1


def test_a_cache_without_permission(project: Path, tmp_path: Path, as_root: bool) -> None:
    if as_root:
        pytest.skip("root may write everywhere")
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o555)
    done = Cli(environment(cache)).good(project, "build")
    assert "note: the cache cannot be written (Permission denied: " in done.err


def test_a_full_disk_under_the_cache(project: Path, disk: Disk) -> None:
    place = disk("64k")
    filler = place / "filler"
    filler.write_bytes(b"x" * (os.statvfs(place).f_bavail * 4096 - 4096))
    done = Cli(environment(place / "cache")).good(project, "build")
    assert done.err.count("note: the cache cannot be written (No space left on device: ") == 1
    assert (project / "dist" / "acme-1.0.0.tilec").is_file()
    assert [path.name for path in place.rglob("*") if path.name.startswith("tmp-")] == []


def test_the_cache_keeps_to_its_bound(project: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cli = Cli({**environment(cache), "TILEC_CACHE_MAX": "12 KiB"})
    targets = "sm_80,sm_86,sm_89,sm_90,sm_100,sm_120"
    assert len(cli.good(project, "build", "--targets", targets).jobs) == 6
    assert sum(path.stat().st_size for path in images(cache)) <= 12 << 10
    cli.good(project, "cache", "clear")
    assert images(cache) == []
    assert cli.good(project, "build", "--targets", targets).up_to_date
