"""Bundles that are damaged, too large or for other GPUs are refused in words, by the command and by
the runtime.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.harness import ADD, HEAD, TWICE, Cli, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]


@pytest.fixture(scope="module")
def dist(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a project of both languages emitted for sm_90."""
    root = write(tmp_path_factory.mktemp("project"), HEAD + TWICE + ADD)
    cli.good(root, "build", "--emit", "bundle,package,wheel")
    return root / "dist"


@pytest.fixture
def bundle(dist: Path) -> bytes:
    return (dist / "acme-1.0.0.tilec").read_bytes()


def refused(cli: Cli, path: Path) -> str:
    """What `inspect --verify` says of a file that it has to refuse."""
    done = cli(path.parent, "inspect", path.name, "--verify")
    assert (done.code, done.out) == (1, "")
    first = done.err.split("\n")[0]
    assert first.startswith("error: ")
    assert path.name in first
    return done.err


@pytest.mark.parametrize("part", [0.0, 0.5])
def test_cut_short(cli: Cli, bundle: bytes, tmp_path: Path, part: float) -> None:
    path = tmp_path / "cut.tilec"
    path.write_bytes(bundle[: int(len(bundle) * part)])
    said = refused(cli, path)
    assert (
        "\n  cause: the file was cut short or changed on its way, or is not a tilec bundle\n"
        in said
    )
    assert "\n  fix: fetch it again, or rebuild it with `tilec build`\n" in said


def test_a_package_whose_bundle_was_changed(cli: Cli, dist: Path, tmp_path: Path) -> None:
    package = Path(shutil.copytree(dist / "acme", tmp_path / "acme"))
    (inner,) = package.glob("*.tilec")
    inner.write_bytes(inner.read_bytes()[:-100])
    done = cli(tmp_path, "inspect", "acme", "--verify")
    assert done.code == 1
    assert inner.name in done.err
