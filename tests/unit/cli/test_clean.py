from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest

from tilec.compiler.state import Output


def remember(project: Path, *files: str, data: bytes = b"built") -> None:
    """Write outputs as a build would, and the state that names them."""
    rows = []
    for name in files:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        output = Output(kind="package", path=str(path), size=len(data), digest=hashlib.sha256(data).hexdigest())
        plain = dataclasses.asdict(output)
        del plain["changed"]
        rows.append({"output": plain, "stat": [0, 0, 0]})
    (project / ".tilec").mkdir(exist_ok=True)
    (project / ".tilec" / "state.json").write_text(json.dumps({"version": 1, "fingerprint": "", "outputs": rows}))
    (project / ".tilec" / "spool").mkdir(exist_ok=True)


def left(project: Path) -> list[str]:
    return sorted(p.relative_to(project).as_posix() for p in project.rglob("*") if not p.is_dir() or p.is_symlink())


def test_outputs_and_state_go_and_nothing_else(cli, project: Path) -> None:
    remember(project, "dist/a.tilec", "dist/acme/__init__.py", "dist/acme/py.typed")
    cache = project / "dist" / "acme" / "__pycache__"
    cache.mkdir()
    (cache / "__init__.cpython-311.pyc").write_bytes(b"")
    (project / "kernels").mkdir()
    (project / "kernels" / "a.cu").write_text("mine")
    done = cli("clean")
    assert (done.code, done.out, done.err) == (0, "removed 3 files and .tilec\n", "")
    assert left(project) == ["kernels/a.cu", "tilec.toml"]
    assert not (project / "dist").exists()
    assert cli("clean").out == "nothing to remove\n"


def test_a_dry_run_removes_nothing(cli, project: Path) -> None:
    remember(project, "dist/a.tilec")
    before = left(project)
    done = cli("clean", "--dry-run")
    assert done.out == "  dist/a.tilec\n  .tilec\nwould remove 1 file and .tilec\n"
    assert left(project) == before
    assert json.loads(cli("clean", "-n", "--json").out) == {
        "schema_version": 1,
        "kind": "clean",
        "dry_run": True,
        "removed": ["dist/a.tilec", ".tilec"],
        "kept": [],
    }


def test_files_of_others_stay(cli, project: Path) -> None:
    remember(project, "dist/acme/__init__.py", "dist/a.tilec")
    (project / "dist" / "acme" / "__init__.py").write_text("edited by hand")
    (project / "dist" / "notes.txt").write_text("mine")
    done = cli("clean")
    assert done.out == "removed 1 file and .tilec\n"
    assert done.err == "kept dist/acme/__init__.py: it was changed after the build\n"
    assert left(project) == ["dist/acme/__init__.py", "dist/notes.txt", "tilec.toml"]


@pytest.mark.parametrize("how", ["directory", "file", "elsewhere"])
def test_links_are_never_followed(cli, project: Path, tmp_path_factory, how: str) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "a.tilec").write_bytes(b"built")
    if how == "elsewhere":
        remember(project, str(outside / "a.tilec"))
        why = "it lies outside of the project"
    else:
        remember(project, "dist/a.tilec")
        (project / "dist" / "a.tilec").unlink()
        if how == "directory":
            (project / "dist").rmdir()
            (project / "dist").symlink_to(outside)
            why = "it lies outside of the project"
        else:
            (project / "dist" / "a.tilec").symlink_to(outside / "a.tilec")
            why = "it is a link, which tilec did not write"
    done = cli("clean")
    assert done.code == 0
    assert why in done.err
    assert (outside / "a.tilec").read_bytes() == b"built"
    assert not (project / ".tilec").exists()


def test_a_state_directory_that_is_a_link_goes_as_a_link(cli, project: Path, tmp_path_factory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "precious").write_text("mine")
    (project / ".tilec").symlink_to(outside)
    assert cli("clean").out == "removed 1 file\n"
    assert not (project / ".tilec").is_symlink()
    assert (outside / "precious").read_text() == "mine"


def test_a_link_inside_the_state_directory_is_not_followed(cli, project: Path, tmp_path_factory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "precious").write_text("mine")
    remember(project)
    (project / ".tilec" / "link").symlink_to(outside)
    cli("clean")
    assert (outside / "precious").read_text() == "mine"


def test_damaged_state_is_only_removed(cli, project: Path) -> None:
    remember(project, "dist/a.tilec")
    (project / ".tilec" / "state.json").write_text("{")
    assert cli("clean").out == "removed 0 files and .tilec\n"
    assert left(project) == ["dist/a.tilec", "tilec.toml"]
