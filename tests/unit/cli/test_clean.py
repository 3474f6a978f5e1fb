from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest

from tests.bundle_samples import Sample, write_sample
from tilec.package.marks import signed, sums_text
from tilec.package.write import write_bundle

MANIFEST = '[package]\nname = "acme-kernels"\nmodule = "acme"\n[output]\ndir = "dist"\n'


@pytest.fixture
def built(project: Path) -> Path:
    """A project with one output of each form, and a working directory."""
    (project / "tilec.toml").write_text(MANIFEST)
    (project / ".tilec" / "spool").mkdir(parents=True)
    package = project / "dist" / "acme"
    package.mkdir(parents=True)
    for name in ("__init__.py", "__init__.pyi"):
        (package / name).write_bytes(signed(b"import tilec\n"))
    (package / "py.typed").touch()
    write_sample(project / "dist" / "acme-kernels-0.3.0.tilec")
    write_sample(package / "acme-0123456789abcdef.tilec")
    folder = project / "dist" / "cubin"
    folder.mkdir()
    (folder / "k.cubin").write_bytes(b"code")
    (folder / "SHA256SUMS").write_bytes(
        sums_text({"k.cubin": "5694d08a2e53ffcae0c3103e5ad6f6076abd960eb1f8a56577040bc1028f702b"})
    )
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


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("dist/acme/__init__.py", b"edited by hand"),
        ("dist/acme/__init__.py", signed(b"import tilec\n").replace(b"import", b"unport")),
        ("dist/acme-kernels-0.3.0.tilec", b"PK\5\6" + bytes(18)),
        ("dist/acme_kernels-0.3.0-py3-none-any.whl", b"PK\5\6" + bytes(18)),
        ("dist/cubin/k.cubin", b"other code"),
        ("dist/acme/py.typed", b"partial\n"),
    ],
)
def test_files_that_are_not_as_tilec_wrote_them_stay_and_are_named(
    cli, built: Path, name: str, data: bytes
) -> None:
    (built / name).write_bytes(data)
    (built / "dist" / "notes.txt").write_text("mine")
    done = cli("clean")
    assert done.err == f"kept {name}: it was changed after the build, or tilec did not write it\n"
    assert left(built) == sorted([name, "dist/notes.txt", "tilec.toml"])


@pytest.mark.parametrize(
    "sums", [b"", b"5694d08a2e53ffcae0c3103e5ad6f6076abd960eb1f8a56577040bc1028f702b  k.cubin\n"]
)
def test_a_list_without_tilecs_mark_names_nothing(cli, built: Path, sums: bytes) -> None:
    (built / "dist" / "cubin" / "SHA256SUMS").write_bytes(sums)
    cli("clean")
    assert left(built) == ["dist/cubin/SHA256SUMS", "dist/cubin/k.cubin", "tilec.toml"]


def test_outputs_of_another_package_stay(cli, built: Path) -> None:
    sample = Sample()
    info = sample.info()
    other = dataclasses.replace(
        info, package=dataclasses.replace(info.package, name="acme-kernels-extra")
    )
    write_bundle(built / "dist" / "acme-kernels-extra-1.tilec", other, sample.images.__getitem__)
    done = cli("clean")
    assert left(built) == ["dist/acme-kernels-extra-1.tilec", "tilec.toml"]
    why = "it was built for the package acme-kernels-extra; delete it if that was this one's name"
    assert done.err == f"kept dist/acme-kernels-extra-1.tilec: {why}\n"


def test_outputs_under_an_earlier_name_are_named(cli, built: Path) -> None:
    manifest = built / "tilec.toml"
    manifest.write_text(MANIFEST.replace("acme-kernels", "zenith").replace('module = "acme"\n', ""))
    (built / "dist" / "strange.whl").write_bytes(b"not of tilec")
    done = cli("clean", "--json")
    assert [
        (row["path"], "built for the package acme-kernels" in row["why"])
        for row in json.loads(done.out)["kept"]
    ] == [
        ("dist/acme", True),
        ("dist/acme-kernels-0.3.0.tilec", True),
    ]


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
        "file": "kept dist/acme/__init__.py: it is a link, which tilec did not write\n",
        "folder": "",
    }
    assert done.err == why[how]
    assert before == (left(outside) if outside.is_dir() else outside.read_bytes())
    assert not (built / ".tilec").exists()


@pytest.mark.parametrize("text", ["", "no toml", '[package]\nname = "../x"', "package = 3"])
def test_a_broken_manifest_leaves_outputs_alone(cli, built: Path, text: str) -> None:
    (built / "tilec.toml").write_text(text)
    assert cli("clean").out == "removed 0 files and .tilec\n"


def test_a_state_that_comes_with_a_project_names_nothing(cli, built: Path) -> None:
    victim = built.parent / "victim"
    victim.write_bytes(b"code")
    row = {
        "kind": "cubin",
        "path": "../victim",
        "size": 4,
        "digest": "5694d08a2e53ffcae0c3103e5ad6f6076abd960eb1f8a56577040bc1028f702b",
    }
    state = {
        "version": 1,
        "fingerprint": "",
        "outputs": [{"output": row, "stat": [0, 0, 0, 0]}],
        "older": [],
    }
    (built / ".tilec" / "state.json").write_text(json.dumps(state))
    cli("clean")
    assert victim.read_bytes() == b"code"
