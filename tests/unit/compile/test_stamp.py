"""The short way of an up-to-date build: whatever was touched, it is not taken."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from tilec.compile import stamp
from tilec.compile.cache import Cache

ASKED = "question"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in ("tilec.toml", "src/a.cu", "include/deep/a.h", "dist/a.tilec"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (root / ".tilec").mkdir()
    return root


def take(
    root: Path,
    *,
    since: int | None = None,
    searched: tuple[str, ...] = (),
    also: tuple[str, ...] = (),
) -> bool:
    time.sleep(0.02)  # files that are as old as the build are not trusted
    return stamp.take(
        Cache(root.parent / "cache", note=pytest.fail),
        root,
        ASKED,
        jobs=7,
        since=time.time_ns() if since is None else since,
        read=[root / name for name in ("tilec.toml", "src/a.cu", "include/deep/a.h", *also)],
        searched=[root / name for name in searched],
        written=[("bundle", root / "dist/a.tilec")],
        output=root / "dist",
    )


def jobs(root: Path, asked: str = ASKED) -> int | None:
    """The jobs of the last build, if nothing was touched since."""
    last = stamp.fresh(root.parent / "cache", root, asked)
    return None if last is None else last.jobs


def test_nothing_touched(project: Path) -> None:
    assert jobs(project) is None
    assert take(project)
    assert jobs(project) == 7
    assert jobs(project, "another") is None
    assert jobs(project.parent) is None


@pytest.mark.parametrize("name", ["tilec.toml", "src/a.cu", "include/deep/a.h", "dist/a.tilec"])
def test_a_file_that_was_edited_touched_or_removed(project: Path, name: str) -> None:
    path = project / name
    assert take(project)
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_text(name.upper())  # of the same size
    os.utime(path, ns=times)  # and of the same time: the change time still tells
    assert jobs(project) is None
    assert take(project)
    path.touch()
    assert jobs(project) is None
    assert take(project)
    path.unlink()
    assert jobs(project) is None


@pytest.mark.parametrize(
    "name", ["b.py", "src/a.h", "src/new/a.h", "include/a.h", "include/deep/b.h"]
)
def test_a_file_that_could_come_before_another(project: Path, name: str) -> None:
    (project / "src" / "new").mkdir()
    assert take(project)
    (project / name).write_text("")
    assert jobs(project) is None


@pytest.mark.parametrize(
    ("searched", "below"),
    [
        (".hidden", "sub"),
        ("dist/made", "sub"),
        ("node_modules", "sub"),
        ("include", "sub"),
        ("include", ".detail/deep"),
        ("include", "node_modules"),
    ],
)
def test_a_folder_that_is_searched_counts_whatever_it_is_called(
    project: Path, searched: str, below: str
) -> None:
    new = project / searched / below / "new.h"
    new.parent.mkdir(parents=True)
    assert take(project, searched=(searched,))
    assert jobs(project) == 7
    new.write_text("")
    assert jobs(project) is None
    assert take(project, searched=(searched,))
    new.write_text("edited")
    assert jobs(project) == 7, "nobody read it, and its name is as it was"


def test_a_header_in_a_hidden_folder_can_come_from_another_of_that_name(project: Path) -> None:
    """`#include ".detail/a.h"` looks beside the source before it looks in the include directories."""
    for name in ("include/.detail/a.h", "src/.detail/other.h", "src/.idea/x.xml"):
        (project / name).parent.mkdir()
        (project / name).write_text("")
    assert take(project, also=("include/.detail/a.h",))
    (project / "src/.idea/y.xml").write_text("")
    assert jobs(project) == 7
    (project / "include/.detail/a.h").write_text("edited")
    assert jobs(project) is None
    assert take(project, also=("include/.detail/a.h",))
    (project / "src/.detail/a.h").write_text("")
    assert jobs(project) is None


def test_a_project_that_is_its_own_include_directory(project: Path) -> None:
    """What tools keep for themselves, and what a build itself writes, does not make a build look
    again.
    """
    for name in (".git/refs", ".ruff_cache/0.12", ".venv/lib"):
        (project / name).mkdir(parents=True)
    (project / ".ruff_cache/CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55")
    (project / ".venv/pyvenv.cfg").write_text("")
    assert take(project, searched=(".",))
    for name in (
        ".git/index",
        ".git/refs/head",
        ".ruff_cache/0.12/x",
        ".venv/lib/x.h",
        ".tilec/state.json",
        "dist/notes",
    ):
        (project / name).write_text("")
    assert jobs(project) == 7
    (project / "src/new.h").write_text("")
    assert jobs(project) is None


def test_a_file_that_was_copied_over_another_while_the_build_ran_is_not_trusted(
    project: Path,
) -> None:
    old = project.parent / "old.cu"
    old.write_text("of last year")
    os.utime(old, (1, 1))
    since = time.time_ns()
    time.sleep(0.02)
    shutil.copy2(old, project / "src/a.cu")  # takes the time along
    assert not take(project, since=since)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"asked": ASKED},
        {"asked": ASKED, "files": 3},
        {"asked": ASKED, "files": {}, "folders": {}},
    ],
)
def test_a_damaged_stamp_only_costs_time(project: Path, value: object) -> None:
    assert take(project)
    Cache(project.parent / "cache", note=pytest.fail).put_record(
        stamp.record_key("stamp", project), value
    )
    assert jobs(project) is None


def test_every_value_is_part_of_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = {"targets": (), "select": (), "profile": "release", "emit": (), "places": ("", "/bin")}
    changed = [
        {"targets": ("sm_90",)},
        {"select": ("sm_90",)},
        {"profile": "debug"},
        {"emit": ("sm_90",)},
        {"places": ("/cuda", "/bin")},
        {"places": ("", "/bin:/usr/bin")},
    ]
    digests = {stamp.question("tilec.toml", **{**plain, **change}) for change in [{}, *changed]}  # type: ignore[arg-type]
    digests.add(stamp.question("other.toml", **plain))  # type: ignore[arg-type]
    assert len(digests) == len(changed) + 2
    monkeypatch.syspath_prepend("/another/place")
    assert stamp.question("tilec.toml", **plain) not in digests  # type: ignore[arg-type]
