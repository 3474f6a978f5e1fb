"""What `--emit` writes, what goes again, and what a package says on a machine without a GPU."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.e2e.harness import ADD, HEAD, TWICE, TWICE_CU, Cli, edit, tree, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

EVERYTHING = "bundle,package,wheel,sbom,provenance,fatbin,cubin,ptx"


@pytest.fixture(scope="module")
def made(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of both languages that emitted everything there is for three targets."""
    manifest = (
        HEAD.replace(
            'version = "1.0.0"', 'version = "1.0.0"\nlicense = "MIT"\nlicense-files = ["LICENSE"]'
        )
        + TWICE
        + ADD
    )
    root = write(
        tmp_path_factory.mktemp("project"), manifest, {"LICENSE": "Permission is granted.\n"}
    )
    cli.good(root, "build", "--emit", EVERYTHING, "--targets", "sm_80,sm_90,compute_80")
    return root


def test_every_kind_of_output(made: Path) -> None:
    files = tree(made / "dist")
    (inner,) = [name for name in files if name.startswith("acme/acme-")]
    assert sorted(files) == sorted(
        [
            "acme-1.0.0-py3-none-any.whl",
            "acme-1.0.0.cdx.json",
            "acme-1.0.0.intoto.json",
            "acme-1.0.0.tilec",
            inner,
            "acme/__init__.py",
            "acme/__init__.pyi",
            "acme/py.typed",
            "cubin/add-TILE128-sm_80.cubin",
            "cubin/add-TILE128-sm_90.cubin",
            "cubin/twice-sm_80.cubin",
            "cubin/twice-sm_90.cubin",
            "fatbin/add-TILE128.fatbin",
            "fatbin/twice.fatbin",
            "ptx/twice-compute_80.ptx",
        ]
    )
    assert files[inner] == files["acme-1.0.0.tilec"]
    assert all(
        data.startswith(b"\x7fELF") for name, data in files.items() if name.endswith(".cubin")
    )
    assert all(
        data.startswith(b"\x50\xed\x55\xba")
        for name, data in files.items()
        if name.endswith(".fatbin")
    )
    assert b".target sm_80" in files["ptx/twice-compute_80.ptx"]
    assert b".entry twice(" in files["ptx/twice-compute_80.ptx"]
    with zipfile.ZipFile(made / "dist" / "acme-1.0.0-py3-none-any.whl") as wheel:
        names = wheel.namelist()
        assert wheel.read(inner) == files[inner]
        assert wheel.read("acme/__init__.py") == files["acme/__init__.py"]
        assert wheel.read("acme-1.0.0.dist-info/licenses/LICENSE") == b"Permission is granted.\n"
        assert b"Requires-Dist: tilec" in wheel.read("acme-1.0.0.dist-info/METADATA")
        sbom = wheel.read("acme-1.0.0.dist-info/sboms/acme.cdx.json")
    assert "acme/py.typed" in names
    assert sbom == files["acme-1.0.0.cdx.json"]
    subjects = json.loads(files["acme-1.0.0.intoto.json"])["subject"]
    assert {row["name"]: row["digest"]["sha256"] for row in subjects} == {
        name: hashlib.sha256(files[name]).hexdigest()
        for name in ("acme-1.0.0-py3-none-any.whl", "acme-1.0.0.tilec")
    }


@pytest.mark.parametrize(
    "obstacle",
    ["dist/ptx/twice-compute_80.ptx/notes", "dist/acme-1.0.0-py3-none-any.whl/notes"],
)
def test_an_output_that_cannot_be_written_leaves_all_as_they_were(
    cli: Cli, tmp_path: Path, obstacle: str
) -> None:
    """Whichever of them it is: the first ones do not run ahead of the last."""
    root = write(tmp_path, HEAD + TWICE)
    cli.good(root, "build", "--emit", "bundle,package")
    write(
        root, HEAD + TWICE, {"k/twice.cu": TWICE_CU.replace("2.0f", "7.0f"), obstacle: "in the way"}
    )
    before = tree(root / "dist")
    failed = cli(root, "build", "--emit", EVERYTHING, "--targets", "sm_90,compute_80")
    assert failed.code == 1
    assert failed.err.split("error: ")[1].startswith("cannot write ")
    assert "fix: " in failed.err
    assert tree(root / "dist") == before


def test_outputs_of_an_earlier_name_stay_and_are_named(cli: Cli, tmp_path: Path) -> None:
    root = write(tmp_path, HEAD + TWICE)
    cli.good(root, "build", "--emit", "bundle,package,wheel")
    before = tree(root / "dist")
    edit(root / "tilec.toml", '"acme"', '"zenith"')
    cli.good(root, "build", "--emit", "bundle,package,wheel")
    done = cli.good(root, "clean")
    for name in ("dist/acme", "dist/acme-1.0.0-py3-none-any.whl", "dist/acme-1.0.0.tilec"):
        assert (
            f"kept {name}: it belongs to the package acme; delete it if that is this package's old name\n"
            in done.err
        )
    assert tree(root / "dist") == before


def test_a_build_names_a_package_that_it_does_not_renew(cli: Cli, tmp_path: Path) -> None:
    root = write(tmp_path, HEAD + TWICE)
    cli.good(root, "build", "--emit", "package")
    note = "note: dist/acme is of an earlier build: renew it by --emit package, or delete it\n"
    assert note not in cli.good(root, "build", "--emit", "wheel").err
    edit(root / "k" / "twice.cu", "2.0f", "7.0f")
    assert note in cli.good(root, "build", "--emit", "wheel").err
    assert note not in cli.good(root, "build", "--emit", "package,wheel").err


WITHOUT_GPU = """
import sys
sys.path.insert(0, "dist")
import acme
from tilec_runtime.errors import NoDeviceError, TilecError
half = {f"tilec.{part}" for part in ("manifest", "frontends", "compile", "build")}
build_half = {"click", "rich", "jinja2", "tomli", "numpy", "cuda.tile"} | half
assert not build_half & set(sys.modules), build_half & set(sys.modules)
try:
    acme.load(0)
except NoDeviceError as exc:
    print(type(exc).__name__, exc.exit_code)
    print(exc)
"""


def test_a_package_without_a_gpu_says_so(cli: Cli, made: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_GPU],
        cwd=made,
        env={**cli.env, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    name, what, *rest = done.stdout.split("\n")
    assert name == "NoDeviceError 3"
    assert "driver" in what or "GPU" in what
    assert rest[0].startswith("  cause: ")


def test_documents_are_renewed_and_go_with_their_build(cli: Cli, tmp_path: Path) -> None:
    """A provenance tells the options too: others give another one, of the same bundle."""
    root = write(tmp_path, HEAD + TWICE)
    emit = ("build", "--emit", "bundle,sbom,provenance")
    cli.good(root, *emit)
    first = tree(root / "dist")
    assert sorted(first) == ["acme-1.0.0.cdx.json", "acme-1.0.0.intoto.json", "acme-1.0.0.tilec"]
    assert cli.good(root, *emit).up_to_date
    said = cli.good(root, *emit, "--select", "twice*").out
    second = tree(root / "dist")
    kept = [line.split()[0] for line in said.splitlines() if line.endswith("unchanged")]
    assert kept == ["bundle", "sbom"]
    changed = [name for name in first if first[name] != second[name]]
    assert changed == ["acme-1.0.0.intoto.json"]
    cli.good(root, "build", "--emit", "bundle")
    assert list(tree(root / "dist")) == ["acme-1.0.0.tilec"]
    cli.good(root, *emit)
    assert tree(root / "dist") == first
    edit(root / "dist" / "acme-1.0.0.cdx.json", "acme", "mine")
    refused = cli(root, *emit, "--force")
    assert (refused.code, "overwrite dist/acme-1.0.0.cdx.json" in refused.err) == (1, True)
    assert "acme-1.0.0.cdx.json" in cli.good(root, "clean").err
    assert list(tree(root / "dist")) == ["acme-1.0.0.cdx.json"]
