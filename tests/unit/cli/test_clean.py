from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from tilec.package.outputs import Output
from tilec.package.written import list_name, save_list

MANIFEST = '[package]\nname = "acme-kernels"\nmodule = "acme"\n[output]\ndir = "dist"\n'


FILES = {
    "acme/__init__.py": "package",
    "acme/acme-0123456789abcdef.tilec": "package",
    "acme/py.typed": "package",
    "acme-kernels-0.3.0.tilec": "bundle",
    "cubin/k.cubin": "cubin",
    "cubin/twice-sm_90.cubin": "cubin",
}


def wrote(directory: Path, package: str, files: dict[str, str]) -> None:
    """Write files, by name with their kinds, as a build of the package does."""
    for name in files:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(name)
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in files}
    outputs = (
        Output(kind=kind, path=str(directory / name), size=len(name), digest=digests[name])
        for name, kind in files.items()
    )
    save_list(directory / list_name(package), package, outputs)


@pytest.fixture
def built(project: Path) -> Path:
    """A project with outputs, and a working directory."""
    (project / "tilec.toml").write_text(MANIFEST)
    (project / ".tilec" / "spool").mkdir(parents=True)
    wrote(project / "dist", "acme-kernels", FILES)
    return project


def left(project: Path) -> list[str]:
    return sorted(
        p.relative_to(project).as_posix()
        for p in project.rglob("*")
        if not p.is_dir() or p.is_symlink()
    )


def test_outputs_and_working_directory_go_and_nothing_else(cli, built: Path) -> None:
    cache = built / "dist" / "acme" / "__pycache__"
    cache.mkdir()
    (cache / "__init__.cpython-311.pyc").write_bytes(b"")
    (built / "kernels").mkdir()
    (built / "kernels" / "a.cu").write_text("mine")
    done = cli("clean")
    assert (done.code, done.out, done.err) == (0, "removed 7 files and .tilec\n", "")
    assert left(built) == ["kernels/a.cu", "tilec.toml"]
    assert not (built / "dist").exists()
    assert cli("clean").out == "nothing to remove\n"


def test_a_dry_run_removes_nothing(cli, built: Path) -> None:
    before = left(built)
    done = cli("clean", "--dry-run")
    assert done.out.endswith("  .tilec\nwould remove 7 files and .tilec\n")
    assert left(built) == before
    document = json.loads(cli("clean", "-n", "--json").out)
    assert sorted(document["removed"]) == [
        ".tilec",
        *(name for name in before if name.startswith("dist/")),
    ]
    assert (document["dry_run"], document["kept"]) == (True, [])


@pytest.mark.parametrize("name", [f"dist/{name}" for name in FILES])
def test_files_that_are_not_as_tilec_wrote_them_stay_and_are_named(
    cli, built: Path, name: str
) -> None:
    (built / name).write_bytes(b"edited by hand")
    (built / "dist" / "notes.txt").write_text("mine")
    done = cli("clean")
    assert done.err == f"kept {name}: it was changed after the build\n"
    assert left(built) == sorted([name, "dist/notes.txt", "tilec.toml"])


LIST = "dist/.acme-kernels.tilec-outputs"


@pytest.mark.parametrize(
    "row",
    [
        "",
        "no row",
        "{digest}",
        "{digest}  cubin  ../tilec.toml",
        "{digest}  cubin  {root}/tilec.toml",
    ],
)
def test_a_list_reaches_nothing_outside_its_directory(cli, built: Path, row: str) -> None:
    digest = hashlib.sha256((built / "tilec.toml").read_bytes()).hexdigest()
    (built / LIST).write_text(row.format(digest=digest, root=built) + "\n")
    before = left(built)
    cli("clean")
    assert left(built) == [name for name in before if name != LIST]


@pytest.mark.parametrize("how", ["directory", "file", "folder"])
def test_links_are_never_followed(cli, built: Path, tmp_path_factory, how: str) -> None:
    outside = tmp_path_factory.mktemp("outside") / "there"
    place = {"directory": "dist", "file": "dist/acme/__init__.py", "folder": "dist/cubin"}[how]
    os.rename(built / place, outside)  # noqa: PTH104
    (built / place).symlink_to(outside)
    before = left(outside) if outside.is_dir() else outside.read_bytes()
    done = cli("clean")
    assert done.code == 0
    why = {
        "directory": f"kept dist: 'dist' is a link that leaves the project: it leads to {outside}\n",
        "file": "kept dist/acme/__init__.py: tilec did not write this link\n",
        "folder": "",  # nothing behind a link is an output
    }
    assert done.err == why[how]
    assert before == (left(outside) if outside.is_dir() else outside.read_bytes())
    assert not (built / ".tilec").exists()


@pytest.mark.parametrize("text", ["", "no toml", '[package]\nname = "../x"', "package = 3"])
def test_a_broken_manifest_leaves_outputs_alone(cli, built: Path, text: str) -> None:
    (built / "tilec.toml").write_text(text)
    assert cli("clean").out == "removed 0 files and .tilec\n"
