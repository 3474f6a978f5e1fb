"""A cache that is damaged, write-protected, full or off costs time, never a build."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import Disk
from tests.e2e.harness import HEAD, TWICE, Cli, edit, environment, tree, write
from tilec.compile.lockfile import read_lock

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write(tmp_path / "project", HEAD + TWICE)


def images(cache: Path) -> list[Path]:
    """The files that hold images."""
    return [path for path in cache.glob("v*/images/*/*") if path.is_file()]


@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "other"])
def test_a_damaged_entry_is_reported_and_made_again(
    project: Path, tmp_path: Path, damage: str
) -> None:
    cache = tmp_path / "cache"
    cli = Cli(environment(cache))
    cli.good(project, "build")
    before = tree(project / "dist")
    (entry,) = images(cache)
    data = bytearray(entry.read_bytes())
    if damage == "bit":
        data[-len(data) // 3] ^= 4
    entry.write_bytes(
        {
            "bit": data,
            "cut": data[: len(data) // 2],
            "empty": b"",
            "other": b"not a cache entry" * 40,
        }[damage]
    )

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
    assert cli.good(project, "build").jobs == {"twice-sm_90"}, (
        "what was built is recorded in the cache"
    )
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
    assert hit.jobs == set()
    assert hit.err.count("note: the cache cannot be written (Read-only file system: ") == 1
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
    assert len(cli.good(project, "build", "--targets", targets).jobs) == 6


def test_the_lock_pins_what_each_build_gave(project: Path, tmp_path: Path) -> None:
    """Pins of other targets and profiles stay; those of what the project has no more go; writing
    them costs no later build.
    """
    cli = Cli(environment(tmp_path / "cache"))
    cli.good(project, "build")

    def pinned() -> dict[str, set[str]]:
        return {profile: set(rows) for profile, rows in read_lock(project).pins.items()}

    assert pinned() == {"release": {"twice-sm_90"}}
    cli.good(project, "build", "--targets", "ci")
    cli.good(project, "build", "--profile", "debug", "--select", "twice-sm_90")
    both = {"release": {"twice-sm_80", "twice-sm_90"}, "debug": {"twice-sm_90"}}
    assert pinned() == both
    again = cli.good(project, "build")
    assert (again.jobs, pinned()) == (set(), both)
    assert cli.good(project, "build").out == "up to date (1 job, untouched)\n"

    lock = project / "tilec.lock"
    text = lock.read_text()
    digest = read_lock(project).pins["release"]["twice-sm_90"].image
    lock.write_text(text.replace(digest, "0" * 64))
    done = cli(project, "build", "--locked")
    assert done.code == 3
    assert f"\n  twice-sm_90: pinned {'0' * 64}, built {digest}\n" in done.err
    done = cli.good(project, "build")
    assert (
        "note: tilec.lock now pins other bytes, made of the same sources by the same tools, for twice-sm_90\n"
        in done.err
    )
    assert lock.read_text() == text
    edit(project / "k" / "twice.cu", "2.0f", "6.0f")
    done = cli.good(project, "build", "--locked")
    assert (
        "note: tilec.lock pins no image of 1 job as the sources are now: `tilec build` without --locked pins what it builds\n"
        in done.err
    )
    assert lock.read_text() == text

    shutil.copy(project / "k" / "twice.cu", project / "k" / "thrice.cu")
    edit(project / "k" / "thrice.cu", "void twice", "void thrice")
    edit(project / "tilec.toml", "[kernel.twice]", "[kernel.thrice]")
    edit(project / "tilec.toml", "k/twice.cu", "k/thrice.cu")
    cli.good(project, "build")
    assert pinned() == {"release": {"thrice-sm_90"}}
