from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import Terminal
from tests.unit.cli.captures import Scene, SceneOf
from tilec import build as building
from tilec.cli.main import run


@dataclasses.dataclass(frozen=True)
class Ran:
    """What one command line did."""

    code: int
    out: str
    err: str


Cli = Callable[..., Ran]


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command line in `tmp_path` with an environment of its own."""

    def call(*args: str, env: dict[str, str] | None = None, cwd: Path = tmp_path) -> Ran:
        capsys.readouterr()
        code = run(args, {"HOME": str(tmp_path / "home"), **(env or {})}, cwd)
        caught = capsys.readouterr()
        return Ran(code, caught.out, caught.err)

    return call


@pytest.fixture
def scene_of(
    cli: Cli,
    terminal: Terminal,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> SceneOf:
    """Makes a terminal of so many columns, to which errors are written too; in the test itself, as
    `terminal`.
    """

    def of(width: int) -> Scene:
        terminal(width)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        return Scene(cli, tmp_path, request, capsys)

    return of


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with an empty manifest: enough for commands whose work is a fake."""
    (tmp_path / "tilec.toml").write_text("edition = 1\n")
    return tmp_path


@pytest.fixture
def fake_build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`tilec.build`, whose functions a test may replace."""
    for name in ("build", "plan_only", "explain", "check", "concerned"):
        monkeypatch.setattr(building, name, getattr(building, name))
    return building
