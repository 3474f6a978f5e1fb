"""Whole builds of two checkouts with one remote, as the command and the manifest name it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tests.remote_server import CacheServer, basic
from tilec.build import BuildResult, build
from tilec.cli.main import run
from tilec.compile.remote.access import RemoteChoice
from tilec.planning import BuildRequest
from tilec.testing.fakes import MemoryObserver

MANIFEST = """\
edition = 1
[package]
name = "acme"
version = "1.0"
[targets]
default = ["sm_80", "sm_90"]
[kernel.add]
language = "fake"
source = "k.fake"
matrix = { BM = [32, 64] }
launch = { grid = ["cdiv(x.size, BM)"], block = [64] }
params = { x = { out = true, dtype = "f32", rank = 1 } }
args = ["x.ptr"]
"""
JOBS = 4
SECRET = "hunter2"


@pytest.fixture(autouse=True)
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake compiler, installed as a plug-in is."""
    info = tmp_path / "site" / "fakec-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fakec\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tilec.frontends]\nfake = tilec.testing.fakes:FakeFrontend\n"
    )
    monkeypatch.syspath_prepend(str(info.parent))


class Checkout:
    """A project and a cache of its own."""

    def __init__(self, root: Path, more: str = "") -> None:
        self.root = root
        root.mkdir()
        (root / "tilec.toml").write_text(MANIFEST + more)
        (root / "k.fake").write_text("kernel add(x: tensor, BM: constant)\n")
        self.observer = MemoryObserver()

    def build(self, choice: RemoteChoice | None = None, **changes: Any) -> BuildResult:
        request = BuildRequest(
            manifest_path=self.root / "tilec.toml",
            cache_dir=self.root.parent / f"cache-of-{self.root.name}",
            emit=("bundle", "wheel"),
            remote=RemoteChoice() if choice is None else choice,
        )
        return build(dataclasses.replace(request, **changes), self.observer)

    @property
    def outputs(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.root / "dist").iterdir()}

    @property
    def notes(self) -> list[str]:
        return [note for note in self.observer.notes if "remote" in note]


@pytest.mark.parametrize("own", [True, False])
def test_the_second_checkout_compiles_nothing(
    own: bool, server: CacheServer, tmp_path: Path
) -> None:
    one, two = Checkout(tmp_path / "one"), Checkout(tmp_path / "two")
    choice = RemoteChoice(url=server.url, mode="write", own=own)
    first = one.build(choice)
    assert (first.jobs, first.compiled, first.cached, first.remote) == (JOBS, JOBS, 0, 0)
    (two.root / "tilec.lock").write_bytes(b"" if own else (one.root / "tilec.lock").read_bytes())
    second = two.build(dataclasses.replace(choice, mode="read"))
    assert (second.compiled, second.cached, second.remote) == (0, JOBS, JOBS)
    assert two.outputs == one.outputs
    assert one.notes == two.notes == []


def test_without_pins_a_remote_that_is_not_ones_own_gives_nothing(
    server: CacheServer, tmp_path: Path
) -> None:
    Checkout(tmp_path / "one").build(RemoteChoice(url=server.url, mode="write"))
    server.requests.clear()
    two = Checkout(tmp_path / "two")
    assert two.build(RemoteChoice(url=server.url)).compiled == JOBS
    assert server.requests == []
    (note,) = two.notes
    assert note.endswith(
        "gives nothing: tilec.lock pins no image of these sources; "
        "commit the tilec.lock of the build that filled it"
    )


def test_a_manifest_names_a_remote(server: CacheServer, tmp_path: Path) -> None:
    """It gives what is pinned, and is sent no token."""
    table = f'[cache]\nremote = "{server.url}"\nremote-mode = "write"\n'
    one, two = Checkout(tmp_path / "one", table), Checkout(tmp_path / "two", table)
    choice = RemoteChoice(token=SECRET, own=True)
    assert one.build(choice).compiled == JOBS
    assert two.build(choice).compiled == JOBS  # not pinned, and nobody's word makes it own
    three = Checkout(tmp_path / "three", table)
    (three.root / "tilec.lock").write_bytes((one.root / "tilec.lock").read_bytes())
    assert three.build(choice).compiled == 0
    assert {request.authorization for request in server.requests} == {""}
    off = Checkout(tmp_path / "off", table)
    server.requests.clear()
    off.build(dataclasses.replace(choice, mode="off"))
    off.build(remote=None, force=True)  # as `--no-cache` has it
    assert server.requests == []


@pytest.mark.parametrize(
    "url",
    [
        f"https://h/x?sig={SECRET}",
        f"s3://b?key={SECRET}",
        f"https://me:{SECRET}@h",
        f"me:{SECRET}@h",
        f"https:me:{SECRET}@h",
    ],
)
def test_errors_about_a_manifest_hide_a_password(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Checkout(tmp_path / "one", f'[cache]\nremote = "{url}"\n')
    for more in ("--debug", "--json"):
        assert run(["build", more], {"TILEC_CACHE_DIR": "off"}, one.root) == 2
        caught = capsys.readouterr()
        assert "cache.remote" in caught.out + caught.err
        assert SECRET not in caught.out + caught.err


def test_the_command_says_what_came_from_the_remote(
    server: CacheServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = Checkout(tmp_path / "one"), Checkout(tmp_path / "two")
    server.authorization = basic("me", SECRET)
    named = server.url.replace("//", f"//me:{SECRET}@")
    seen = ""

    def tilec(project: Checkout, *args: str, **more: str) -> str:
        nonlocal seen
        cache = str(project.root.parent / f"cache-of-{project.root.name}")
        env = {"TILEC_CACHE_DIR": cache, "TILEC_REMOTE_TRUST": "own", **more}
        assert run(["-v", *args], env, project.root) == 0
        caught = capsys.readouterr()
        seen += caught.out + caught.err
        return caught.out

    tilec(one, "build", "--remote-cache", named, "--remote-mode", "write")
    assert "built 4 jobs: 0 compiled, 4 from the remote cache, " in tilec(
        two, "build", TILEC_REMOTE_CACHE=named
    )
    text = tilec(two, "cache", "info")
    assert "remote cache, last build: 4 hits, 0 misses, " in text
    assert "remote cache, all builds: 4 hits, 0 misses, " in text
    document = json.loads(tilec(one, "cache", "info", "--json"))
    assert document["remote"]["total"]["uploaded"] == JOBS
    assert document["remote"]["last"]["up"] > JOBS * 256
    document = json.loads(tilec(two, "build", "--force", "--json", TILEC_REMOTE_CACHE=named))
    assert document["remote"]["hits"] == 0
    doctor = tilec(two, "doctor", TILEC_REMOTE_CACHE=named)
    assert f"remote    {server.url} (read, gives every image)" in doctor
    server.fault = lambda one: "507" if one.method == "PUT" else ""
    doctor = tilec(two, "doctor", TILEC_REMOTE_CACHE=named, TILEC_REMOTE_MODE="write")
    assert f"remote    {server.url}: it answers 507 (Insufficient Storage)" in doctor
    assert SECRET not in seen
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
