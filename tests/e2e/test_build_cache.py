"""A cache that is damaged, write-protected, full or off costs time, never a build."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.harness import HEAD, TWICE, Cli, edit, environment, write
from tilec.compile.lockfile import read_lock

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write(tmp_path / "project", HEAD + TWICE)


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
