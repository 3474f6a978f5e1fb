"""What commands that run, check, watch and look into launches show in terminals, as golden text,
over doubles of NVIDIA's tools.
"""

from __future__ import annotations

import re

import click
import pytest

from tests.bundle_samples import write_sample
from tests.conftest import Golden
from tests.unit.case import test_run_command
from tests.unit.cli.captures import Scene, SceneOf, hold
from tests.watched_project import driver, write_project, write_tool
from tilec.cli.main import COMMANDS
from tilec_runtime.device import driver as _driver

tilec_run = test_run_command.tilec
SHELLS = "/usr/bin:/bin"


def run(scene: Scene) -> str:
    scene.fixture("tilec_run")
    return _timed(scene.ran("run", "--bundle", "acme.tilec"))


def sanitize_gpu(scene: Scene) -> str:
    _watched(scene)
    write_tool(scene.folder, "compute-sanitizer", '[ "$2" != memcheck ] || exit 86')
    return _with_tools(
        scene, "sanitize", "--device", "cuda", "--bundle", "acme.tilec", "--case", "some"
    )


def sanitize_gpu_missing(scene: Scene) -> str:
    _watched(scene)
    return _with_tools(scene, "sanitize", "--device", "cuda", "--bundle", "acme.tilec")


def profile_refused(scene: Scene) -> str:
    _watched(scene)
    write_tool(scene.folder, "ncu", "exit 1")
    return _with_tools(scene, "profile", "scale/some", "--bundle", "acme.tilec")


def debug(scene: Scene) -> str:
    _watched(scene)
    write_tool(scene.folder, "cuda-gdb", "exit 0")
    return _with_tools(scene, "debug", "scale/some", "--bundle", "acme.tilec")


def inspect(scene: Scene) -> str:
    write_sample(scene.folder / "acme.tilec")
    return scene.ran("inspect", "acme.tilec", "--verify")


def help_of_all(scene: Scene) -> str:
    """The help of `tilec` and of each command, as they are asked for."""
    lines = [
        (),
        *((name,) for name in COMMANDS),
        ("cache", "info"),
        ("cache", "gc"),
        ("cache", "clear"),
    ]
    return "\n".join(
        f"$ {' '.join(('tilec', *line, '--help'))}\n{scene.ran(*line, '--help')}" for line in lines
    )


SCENES = {
    make.__name__.replace("_", "-"): make
    for make in (
        *(run, sanitize_gpu, sanitize_gpu_missing, profile_refused),
        *(debug, inspect, help_of_all),
    )
}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", SCENES)
def test_how_it_looks(name: str, width: int, scene_of: SceneOf, golden: Golden) -> None:
    scene = scene_of(width)
    text = SCENES[name](scene)
    hold(name, click.unstyle(re.sub(r"[^\n]*\r\x1b\[2K", "", text)), scene.folder, width, golden)


def _watched(scene: Scene) -> None:
    write_project(scene.folder)
    fake = driver()
    patch = scene.fixture("monkeypatch")
    patch.setattr(_driver, "driver", lambda: fake)
    patch.setattr("tilec.frontends.tools.search._wheel_roots", list)
    patch.setattr(
        "tilec.case.tools._PLACES",
        {
            name: (f"usr/local/cuda/bin/{name}",)
            for name in ("ncu", "cuda-gdb", "compute-sanitizer")
        },
    )


def _with_tools(scene: Scene, *words: str) -> str:
    (scene.folder / "bin").mkdir(exist_ok=True)
    env = {
        "PATH": f"{scene.folder}/bin:{SHELLS}",
        "CUDA_HOME": str(scene.folder),
        "TILEC_CACHE_DIR": "off",
    }
    return str(scene.ran(*words, env=env))


def _timed(text: str) -> str:
    """Without the times that a run took."""
    return re.sub(
        r"\d+\.\d\d? (m?s)\b",
        lambda m: "0.50 ms".rjust(len(m[0])) if m[1] == "ms" else "0.5 s",
        text,
    )
