"""`tilec verify`: files that are built again, and what it says of others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.e2e.harness import HEAD, TWICE, Cli, Done, edit, tree, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

NAMES = (
    "acme-1.0.0.tilec",
    "acme-1.0.0-py3-none-any.whl",
    "acme-1.0.0.cdx.json",
    "acme-1.0.0.intoto.json",
    "hub/acme",
)


@pytest.fixture(scope="module")
def made(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write(tmp_path_factory.mktemp("project"), HEAD + TWICE)
    cli.good(root, "build", "--emit", "bundle,wheel,sbom,provenance,hub", "--targets", "ci")
    return root


@pytest.fixture
def project(made: Path, tmp_path: Path) -> Path:
    """A checkout of its own, with the files that were built."""
    return Path(shutil.copytree(made, tmp_path / "checkout"))


def rows(done: Done) -> dict[tuple[str, str], tuple[str, str]]:
    document = json.loads(done.out)
    assert (document["kind"], document["ok"]) == ("verify", False)
    return {
        (one["kind"], one["name"]): (one["given"], one["built"]) for one in document["differences"]
    }


@pytest.mark.parametrize("name", [NAMES[0], *NAMES[3:]])
def test_the_same_checkout_gives_the_same_bytes(cli: Cli, made: Path, name: str) -> None:
    before = tree(made)
    done = cli.good(made, "verify", f"dist/{name}")
    assert done.out.endswith(": the rebuilt bytes are equal\n")
    assert len(done.jobs) == 2  # nothing came from the cache
    assert tree(made) == before


def test_a_file_is_verified_against_a_checkout_elsewhere(
    cli: Cli, made: Path, project: Path, tmp_path: Path
) -> None:
    shutil.copy(made / "dist" / NAMES[1], tmp_path)
    shutil.rmtree(project / "dist")
    name = str(tmp_path / NAMES[1])
    cli.good(tmp_path, "-C", str(project), "verify", name)
    assert not (project / "dist").exists()
    document = json.loads(
        cli.good(tmp_path, "-C", str(project), "verify", name, "--cached", "--json").out
    )
    assert (document["ok"], document["built"], document["differences"]) == (True, True, [])


@pytest.mark.parametrize("name", [NAMES[0], NAMES[3]])
def test_another_source_is_refused_before_anything_is_built(
    cli: Cli, project: Path, name: str
) -> None:
    edit(project / "k" / "twice.cu", "2.0f", "3.0f")
    before = tree(project)
    done = cli(project, "verify", f"dist/{name}", "--json")
    assert done.code == 1
    assert [*rows(done)] == [("source", "k/twice.cu")]
    assert json.loads(done.out)["built"] is False
    assert tree(project) == before
    shown = cli(project, "verify", f"dist/{name}").out
    assert "nothing was built, because the sources differ" in shown


@pytest.mark.parametrize("name", [NAMES[0], NAMES[3]])
def test_another_option_is_named(cli: Cli, project: Path, name: str) -> None:
    with (project / "tilec.toml").open("a") as manifest:
        manifest.write("\n[profile.release]\nlineinfo = true\n")
    done = cli(project, "verify", f"dist/{name}", "--json")
    assert done.code == 1
    found = rows(done)
    assert found["option", "twice: lineinfo"] == ("false", "true")
    if not name.endswith("intoto.json"):
        assert {key for key in found if key[0] == "image"} == {
            ("image", "twice-sm_80"),
            ("image", "twice-sm_90"),
        }


def test_a_file_beside_a_provenance_that_is_not_the_one_it_names(cli: Cli, project: Path) -> None:
    bundle = project / "dist" / NAMES[0]
    bundle.write_bytes(bundle.read_bytes() + b"x")
    done = cli(project, "verify", f"dist/{NAMES[3]}", "--json")
    assert done.code == 1
    assert [*rows(done)] == [("subject", NAMES[0])]
