"""Projects that come from strangers: links that leave them, outputs that tilec did not write."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.attack.conftest import Campaign
from tests.e2e.harness import HEAD, TWICE, Cli, environment, tree, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

PACKAGE = HEAD.replace('version = "1.0.0"\n', 'version = "1.0.0"\nlicense-files = ["LICENSE"]\n')
CASE = '\n[kernel.twice.case.some]\ninputs = { x = { shape = [64] }, y = { shape = [64] } }\nreference = "refs.py:twice"\n'
MANIFEST = PACKAGE + TWICE + 'include = ["include"]\n' + CASE
TABLE = MANIFEST.replace(
    'include = ["include"]', 'include = ["include"]\ndispatch = { table = "tuning/twice.json" }'
)
LINKED = MANIFEST.replace('include = ["include"]', 'include = ["include"]\nlink = ["lib.cu"]')
FILES = {
    "LICENSE": "mine\n",
    "include/one.cuh": "",
    "refs.py": "def twice(x):\n    return 2 * x\n",
    "lib.cu": "",
    "tuning/twice.json": "{}",
}
EVERYTHING = ("build", "--emit", "bundle,package,wheel,cubin,ptx,fatbin")
LIST = "dist/.acme.tilec-outputs"
FOREIGN = (
    "dist/acme/__init__.py",
    "dist/acme/__init__.pyi",
    "dist/acme/py.typed",
    "dist/acme-1.0.0.tilec",
    "dist/acme-1.0.0-py3-none-any.whl",
    "dist/cubin/twice-sm_90.cubin",
    LIST,
)


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    return Cli(environment(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def built(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write(tmp_path_factory.mktemp("built") / "project", MANIFEST, FILES)
    cli.good(root, *EVERYTHING)
    return root


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "project"))


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What the project must not read, write or remove."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("not yours")
    return folder


def lead_out(root: Path, name: str, outside: Path) -> Path:
    """Put what lies at a path of a project outside of it, and a link in its place."""
    path, target = root / name, outside / name.replace("/", "_")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.rename(target)
    elif path.suffix or name.endswith("lock"):
        target.write_text("{}")
    else:
        target.mkdir()
    path.symlink_to(target)
    return target


@pytest.mark.parametrize(
    ("name", "manifest"),
    [
        *(
            (name, MANIFEST)
            for name in ("LICENSE", "k/twice.cu", "refs.py", "include", "k", "tilec.lock")
        ),
        ("tuning/twice.json", TABLE),
        ("tuning", TABLE),
        ("lib.cu", LINKED),
        *(
            (name, MANIFEST)
            for name in ("dist", "dist/acme", "dist/cubin", "dist/fatbin", *FOREIGN)
        ),
        *(
            (name, MANIFEST)
            for name in (".tilec", ".tilec/failed", ".tilec/lock", ".tilec/.gitignore")
        ),
    ],
)
def test_a_link_that_leaves_is_refused_whatever_it_stands_for(
    cli: Cli, project: Path, outside: Path, name: str, manifest: str
) -> None:
    write(project, manifest, {"k/twice.cu": (project / "k/twice.cu").read_text() + "\n"})
    target = lead_out(project, name, outside)
    before, lay = tree(outside), tree(project / "dist")
    done = cli(project, *EVERYTHING)
    assert done.code in (1, 2), done.err
    assert f"'{name}' is a link that leaves the project: it leads to {target}" in done.err
    assert (
        f"copy the {'file' if target.is_file() else 'directory'} into the project, or remove the link"
        in done.err
    )
    assert (tree(outside), tree(project / "dist")) == (before, lay)
    if not name.startswith((".tilec", "tilec.lock")) and name not in (
        *FOREIGN,
        "dist/cubin",
        "dist/fatbin",
    ):
        assert f"'{name}' is a link that leaves" in cli(project, "check").err


def test_links_inside_the_project_are_followed(cli: Cli, project: Path) -> None:
    for name in ("LICENSE", "k", "dist", ".tilec"):
        (project / name).rename(project / f"real{name.lstrip('.')}")
        (project / name).symlink_to(f"real{name.lstrip('.')}")
    cli.good(project, *EVERYTHING)


@pytest.mark.parametrize("name", FOREIGN)
def test_files_that_tilec_did_not_write_are_never_replaced(
    cli: Cli, project: Path, name: str
) -> None:
    if name == LIST:  # then every output is somebody's
        (project / LIST).unlink()
        name = "dist/acme-1.0.0.tilec"
    else:
        (project / name).write_bytes(b"mine\n")
    (project / "k" / "twice.cu").write_text(
        (project / "k" / "twice.cu").read_text() + f"// {name}\n#define EDITED\n"
    )
    before = tree(project / "dist")
    shutil.rmtree(project / ".tilec")
    done = cli(project, *EVERYTHING, "--profile", "debug")  # other bytes everywhere
    assert done.code == 1
    refused = done.err.partition("error: the build would overwrite ")[2].partition("\n")[0]
    assert name in refused.split(", ")
    assert (
        "cause: tilec did not write this, or it was changed since: files of others are never touched\n"
        in done.err
    )
    assert (
        "fix: move it away or delete it, or choose another directory by [output] dir\n" in done.err
    )
    assert tree(project / "dist") == before


def test_a_package_of_another_module_goes_as_a_whole_or_stays(cli: Cli, project: Path) -> None:
    text = (project / "tilec.toml").read_text()
    (project / "tilec.toml").write_text(
        text.replace("license-files", 'module = "other"\nlicense-files')
    )
    cli.good(project, "build")
    assert not (project / "dist" / "acme").exists()
    assert (project / "dist" / "other" / "__init__.py").is_file()
    (project / "dist" / "other" / "__init__.py").write_text("mine")
    before = tree(project / "dist" / "other")
    (project / "tilec.toml").write_text(text)
    done = cli.good(project, "build")
    assert "left of an earlier build, but changed since: dist/other/" in done.err
    assert tree(project / "dist" / "other") == before


def test_hostile_projects_at_random(
    cli: Cli, built: Path, tmp_path: Path, campaign: Campaign
) -> None:
    """Whatever leads out of a project or lies in its outputs: nothing outside changes, no foreign
    file goes, no command crashes.
    """
    names = [
        "LICENSE",
        "k",
        "include",
        "refs.py",
        "tilec.lock",
        "dist",
        "dist/acme",
        "dist/cubin",
        ".tilec",
        ".tilec/failed",
        *FOREIGN,
    ]
    commands = [
        ("build",),
        EVERYTHING,
        ("build", "--force", "--profile", "debug"),
        ("check",),
        ("clean",),
        ("build", "--list"),
    ]
    rounds = campaign.rounds(short=4, long=1500)
    refused = 0
    for number in range(rounds):
        chance = random.Random(number)
        root, outside = tmp_path / f"{number}", tmp_path / f"{number}-outside"
        shutil.copytree(built, root)
        outside.mkdir()
        foreign = {}
        for name in chance.sample(names, chance.randint(0, 2)):
            if (root / name).exists() and not (root / name).is_symlink():
                lead_out(root, name, outside)
        for name in chance.sample(FOREIGN, chance.randint(0, 2)):
            path = root / name
            if path.is_file() and path.resolve().is_relative_to(root.resolve()):
                path.write_bytes(
                    foreign.setdefault(
                        name,
                        chance.choice([b"mine", b"PK\5\6" + bytes(18)]),
                    )
                )
        before = tree(outside)
        for command in chance.sample(commands, 2):
            done = cli(root, *command)
            refused += done.code in (1, 2)
            assert done.code in (0, 1, 2), (number, command, done.err)
        assert tree(outside) == before, number
        assert {name: (root / name).read_bytes() for name in foreign} == foreign, number
        shutil.rmtree(root)
    campaign.record(rounds=rounds, commands=2 * rounds, refused=refused)
