"""What `tilec run`, `sanitize` and `debug` build, and where: never less into the outputs of the
project, and no more than they need.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.harness import ADD, HEAD, TWICE, Cli, edit, tree, write
from tests.watched_project import write_tool
from tilec.cli.main import run
from tilec.frontends.base import ToolSearch
from tilec.inspection.dump import machine_code
from tilec.inspection.lines import sass_lines
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device import driver as _driver

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

CASES = """
[kernel.{name}.case.some]
inputs.{one} = {{ shape = [256], dtype = "f32" }}
inputs.{other} = {{ shape = [256], dtype = "f32", dist = "empty" }}
"""
MIXED = (
    HEAD
    + ADD
    + CASES.format(name="add", one="x", other="z")
    + TWICE
    + CASES.format(name="twice", one="x", other="y")
)
NO_CUDA = "skipped twice: it is a CUDA C++ kernel, compiled to code of a GPU; the cpu device runs tile kernels only"
COMMANDS = ["run", "sanitize"]


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    return write(tmp_path / "mixed", MIXED)


def outputs(root: Path) -> dict[str, bytes]:
    """What the project ships, and the tools that it was built with."""
    return {**tree(root / "dist"), "tilec.lock": (root / "tilec.lock").read_bytes()}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("words", [["--targets", "tileir"], []])
def test_runs_leave_shipped_outputs_unchanged(
    cli: Cli, mixed: Path, command: str, words: list[str]
) -> None:
    cli.good(mixed, "build")
    before = outputs(mixed)
    cli(mixed, command, *words)
    assert outputs(mixed) == before
    edit(mixed / "k" / "add.py", "1.0", "2.0")
    cli(mixed, command, *words)
    assert outputs(mixed) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_gpu_tile_ir_alone_is_built(cli: Cli, mixed: Path, command: str) -> None:
    done = cli(mixed, command, "--device", "cpu", "-v")
    assert done.code == 0, done.err
    assert done.jobs <= {"add-TILE128-tileir"}  # of the cache that the tests share
    (bundle,) = (mixed / ".tilec" / "run").glob("*.tilec")
    kernels = cli.good(mixed, "inspect", str(bundle), "--json").json()["kernels"]
    images = [
        image["target"]
        for kernel in kernels
        for variant in kernel["variants"]
        for image in variant["images"]
    ]
    assert ([kernel["name"] for kernel in kernels], images) == (["add"], ["tileir"])
    assert not (mixed / "dist").exists()
    assert not (mixed / "tilec.lock").exists()
    assert NO_CUDA in done.out
    again = cli(mixed, command, "--device", "cpu", "-v")
    assert (again.code, again.jobs) == (0, set())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_kernel_that_runs_nowhere_here_is_skipped_and_nothing_is_built(
    cli: Cli, mixed: Path, command: str
) -> None:
    done = cli(mixed, command, "twice", "--device", "cpu")
    assert (done.code, done.jobs) == (3, set())
    assert NO_CUDA in done.out
    document = cli(mixed, command, "twice", "--device", "cpu", "--json").json()
    assert (document["package"], document["version"], document["bundle"]) == ("acme", "1.0.0", None)
    assert [case["status"] for case in document["cases"]] == ["skipped"]
    given = cli(mixed, "run", "twice", "--device", "cpu", "--arg", "x=f32[3]", "--arg", "y=f32[3]")
    assert given.code == 3
    assert "kernel twice cannot be run: it is a CUDA C++ kernel" in given.err
    traced = cli(mixed, "run", "--device", "cpu", "--trace", "twice/some")
    assert traced.code == 3
    assert "twice/some cannot be traced: it is a CUDA C++ kernel" in traced.err


def test_the_projects_own_bundle_is_taken_where_it_is_up_to_date(cli: Cli, mixed: Path) -> None:
    edit(mixed / "tilec.toml", 'default = ["sm_90"]', 'default = ["sm_90", "tileir"]')
    cli.good(mixed, "build")
    cli.good(
        mixed, "build"
    )  # the first one writes tilec.lock, and so cannot tell that nothing was touched since
    digest = cli.good(mixed, "inspect", "dist/acme-1.0.0.tilec", "--json").json()["sha256"]
    assert cli.good(mixed, "run", "--device", "cpu", "--json").json()["bundle"] == digest
    assert not (mixed / ".tilec" / "run").exists()
    edit(mixed / "k" / "add.py", "1.0", "2.0")
    assert cli.good(mixed, "run", "--device", "cpu", "--json").json()["bundle"] != digest


def test_a_kernel_is_debugged_with_source_lines(
    mixed: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    edit(mixed / "tilec.toml", 'default = ["sm_90"]', 'default = ["sm_80", "sm_90"]')
    write_tool(tmp_path, "cuda-gdb", "exit 0")
    fake = FakeDriver()
    monkeypatch.setattr(_driver, "driver", lambda: fake)
    env = {
        "HOME": str(tmp_path),
        "TILEC_CACHE_DIR": str(tmp_path / "cache"),
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
    }
    code = run(["debug", "twice/some", "--profile", "release"], env, mixed)
    assert code == 0, capsys.readouterr().err
    (path,) = (mixed / ".tilec" / "run").glob("*.tilec")
    bundle = Bundle.open(path)
    (kernel,) = bundle.info.kernels
    images = [image for variant in kernel.variants for image in variant.images]
    assert {str(image.target) for image in images} == {"sm_90"}
    assert not (mixed / "dist").exists()
    assert "tilec.lock" not in tree(mixed)
    lines = sass_lines(
        machine_code(bundle.image(images[0].digest), images[0].symbol, ToolSearch(), places=True)[1]
    )
    assert {places[0][0] for _, places in lines if places} == {"k/twice.cu"}
    assert str(path) in (tmp_path / "calls").read_text().splitlines()
