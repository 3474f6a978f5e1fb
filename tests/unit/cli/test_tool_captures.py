"""What commands that run, check, watch and look into launches show in terminals, as golden text,
over doubles of NVIDIA's tools.
"""

from __future__ import annotations

import re
from typing import Any

import click
import pytest

from tests.bench_samples import app, bound
from tests.bench_samples import manifest as planned_manifest
from tests.bundle_samples import write_sample
from tests.conftest import Golden
from tests.unit.case import test_run_command
from tests.unit.cli.captures import Scene, SceneOf, hold
from tests.unit.cli.test_bench_command import CASES
from tests.watched_project import driver, write_project, write_tool
from tilec.case.device import refusal_of
from tilec.case.sanitize import CaseFindings, SanitizeOptions
from tilec.cli import watch as watching
from tilec.cli.cases import Opened
from tilec.cli.main import COMMANDS
from tilec.cli.main import run as tilec
from tilec.cli.sanitize import sanitize as show_checked
from tilec_runtime.cpu.tileir.check.findings import Finding, FindingKind, Side
from tilec_runtime.cpu.tileir.ir import Loc
from tilec_runtime.device import driver as _driver

tilec_run = test_run_command.tilec
SHELLS = "/usr/bin:/bin"


def run(scene: Scene) -> str:
    scene.fixture("tilec_run")
    return _timed(scene.ran("run", "--bundle", "acme.tilec"))


def run_repeated(scene: Scene) -> str:
    scene.fixture("tilec_run")
    return _timed(
        scene.ran("run", "scale", "--case", "good", "--bundle", "acme.tilec", "--repeat", "20")
    )


def sanitize(scene: Scene) -> str:
    """What the checker of Tile IR finds, as it was planned: a race, and a kernel that needs a GPU."""
    (scene.folder / "smooth.py").write_text(
        "# line\n" * 6
        + "    mean = (ct.gather(y, at - 1) + ct.gather(y, at)) / 2.0\n    ct.scatter(y, at, mean)\n"
    )
    found = planned_manifest(*CASES, root=scene.folder)
    first, second, *_ = bound(found)
    race = Finding(
        kind=FindingKind.READ_RACE,
        what="block (0, 0, 0) writes y[63], which block (1, 0, 0) reads in the same launch",
        location=Loc("smooth.py", 8, 4),
        other=Side(what="reads", location=Loc("smooth.py", 7, 12), block=(1, 0, 0)),
        block=(0, 0, 0),
        parameter="y",
        index=(63,),
        count=7,
        hint="blocks run in any order: split the kernel in two, or order them with atomics",
    )
    note = "sums differ from one order of the blocks to another, within the case's tolerance: floats are added up in another order"
    planned = [
        CaseFindings(case=first, variants=("smooth-TILE64",), findings=(race,), blocks=8),
        CaseFindings(case=second, notes=(note,), blocks=4096),
        CaseFindings(case=second, skipped=refusal_of("cuda", advice="")),
    ]

    def checked(*_args: Any, on_result: Any, **_more: Any) -> tuple[CaseFindings, ...]:
        for result in planned:
            on_result(result)
        return tuple(planned)

    scene.fixture("monkeypatch").setattr("tilec.case.sanitize.sanitize_cases", checked)
    show_checked(app(scene.folder), Opened(bundle=None), (first, second), SanitizeOptions(), found)
    return str(scene.capsys.readouterr().out)


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


def watch(scene: Scene) -> str:
    """Two rounds: a save between them mends one mistake of the manifest, and leaves another; no
    compiler is asked.
    """
    scene.ran("new", "acme")
    root = scene.folder / "acme"
    manifest = root / "tilec.toml"
    wrong = '\ntargets.min-drivr = "580"\ntargets.gruops.ci = ["sm_90"]\n\n[kernel'
    manifest.write_text(manifest.read_text().replace("\n[kernel", wrong))

    def save() -> None:
        manifest.write_text(manifest.read_text().replace("min-drivr", "min-driver"))

    acts = iter((save, lambda: None))

    def wait(_seconds: float) -> None:
        try:
            next(acts)()
        except StopIteration:
            raise KeyboardInterrupt from None

    patch = scene.fixture("monkeypatch")
    patch.setattr(
        watching,
        "run_once",
        lambda words, folder: tilec(words, {"HOME": str(scene.folder)}, folder),
    )
    patch.setattr(watching, "pause", wait)
    return scene.ran("-C", "acme", "watch", "check").replace(
        "\r\x1b[2K", "\n"
    )  # each line stays until something else is said


def inspect(scene: Scene) -> str:
    write_sample(scene.folder / "acme.tilec")
    return scene.ran("inspect", "acme.tilec", "--verify")


def cache_trimmed(scene: Scene) -> str:
    env = {"TILEC_CACHE_DIR": "cache"}
    return "".join(
        scene.ran("cache", *words, env=env) for words in (("gc", "--max-size", "1 GiB"), ("clear",))
    )


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
        *(run, run_repeated, sanitize, sanitize_gpu, sanitize_gpu_missing, profile_refused),
        *(debug, watch, inspect, cache_trimmed, help_of_all),
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
