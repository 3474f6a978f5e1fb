from __future__ import annotations

import functools
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import Terminal
from tests.unit.cli.captures import Scene, SceneOf
from tests.unit.conftest import Cli
from tests.watched_project import driver, write_project
from tilec import build as building
from tilec.case import tools
from tilec_runtime.device import driver as _driver


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
    """`tilec.build`, whose function `build` a test may replace."""
    monkeypatch.setattr(building, "build", building.build)
    return building


@pytest.fixture
def watched(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command in a project over a pretended GPU; NVIDIA's tools are those in `bin`."""
    write_project(tmp_path)
    (tmp_path / "bin").mkdir()
    fake = driver()
    monkeypatch.setattr(_driver, "driver", lambda: fake)
    monkeypatch.setattr("tilec.frontends.tools.search._wheel_roots", list)
    places = {name: (f"usr/local/cuda/bin/{name}",) for name in tools._PLACES}
    monkeypatch.setattr(tools, "_PLACES", places)
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    return functools.partial(
        cli, env={"PATH": path, "CUDA_HOME": str(tmp_path), "TILEC_CACHE_DIR": "off"}
    )
