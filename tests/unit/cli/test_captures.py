"""What commands show in terminals of 80 and 120 columns, as golden text: nothing is wider, and
whoever changes it reads it.

Each capture takes a sample that another test makes. Times are planned, and what differs between
machines (paths, versions) is left out. Those of `inspect` and
`run` are with their own tests. `schema` and `completion` print for programs.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import click
import pytest

from tests.bench_samples import GIVEN, PlannedDevice, app, bound, manifest, opened
from tests.conftest import Golden
from tests.runtime_samples import ADD
from tests.tune_samples import A, B, C, kernel_with, planned
from tests.unit.cli import (
    test_build_command,
    test_clean,
    test_doctor_and_cache,
    test_tune_command,
)
from tests.unit.cli.captures import Scene, SceneOf, hold
from tests.unit.cli.test_bench_command import CASES, Desk, times
from tests.watched_project import write_tool
from tilec.bench.points import planned_cases
from tilec.case.arguments import overridden, parse_overrides
from tilec.case.sweeps import parse_sweep, settings_at
from tilec.cli import bench_run, tune_show
from tilec.cli.bench_run import Files
from tilec.cli.main import COMMANDS
from tilec.manifest.types import Case
from tilec.tune.cases import spaces_of
from tilec_runtime.errors import BuildError, CompileError, Diagnostic, Location

full, outside = test_doctor_and_cache.full, test_doctor_and_cache.outside


def new(scene: Scene) -> str:
    return scene.ran("new", "acme-kernels")


def check(scene: Scene) -> str:
    scene.ran("new", "acme")
    path = scene.folder / "acme" / "tilec.toml"
    text = path.read_text().replace("[5003]", '{ dist = "nromal" }')
    path.write_text(text.replace("\n[kernel", '\ntargets.min-drivr = "580"\n\n[kernel'))
    return scene.ran("-C", "acme", "check")


def build(scene: Scene) -> str:
    scene.fixture("project")
    scene.fixture("fake_build").build = lambda _request, _observer: test_build_command.result(
        scene.folder
    )
    return scene.ran("build")


def build_fails(scene: Scene) -> str:
    scene.fixture("project")
    (scene.folder / "k.cu").write_text(
        "__global__ void k(float* x)\n{\n    x[threadIdx.x] = undeclared_name * 2.0f;\n}\n"
    )
    wrong = Diagnostic(
        message='identifier "undeclared_name" is undefined',
        location=Location(file="k.cu", line=3, column=22),
    )
    error = CompileError(
        "x",
        kernel="k",
        target="sm_90",
        diagnostics=(wrong,),
    )
    error.kept = str(scene.folder / ".tilec/failed/k")

    def fail(_request: object, _observer: object) -> None:
        raise BuildError((error,), total=12)

    scene.fixture("fake_build").build = fail
    return scene.ran("build")


def clean(scene: Scene) -> str:
    project = scene.fixture("project")
    (project / "tilec.toml").write_text(test_clean.MANIFEST)
    (project / ".tilec").mkdir()
    files = {"acme/__init__.py": "package", "acme/py.typed": "package"}
    test_clean.wrote(project / "dist", "acme-kernels", files)
    (project / "dist" / "acme" / "__init__.py").write_text("changed since")
    return scene.ran("clean")


def doctor(scene: Scene) -> str:
    scene.fixture("outside")
    scene.fixture("full")
    return scene.ran("doctor", env={"TILEC_CACHE_DIR": "off"})


def bench(scene: Scene) -> str:
    Desk(scene.folder).bench()
    return scene.capsys.readouterr().out


def bench_sweep(scene: Scene) -> str:
    sweep = parse_sweep("n=1024..65536*4")
    found = manifest(*CASES, root=scene.folder)
    (kernel,) = found.kernels

    def at(value: str) -> Any:
        overrides = parse_overrides(
            {"--set": settings_at(("x=[n]",), sweep, value)}, cwd=scene.folder
        )
        changed = overridden(dataclasses.replace(kernel, cases=kernel.cases[:1]), ADD, overrides)
        return bound(dataclasses.replace(found, kernels=(changed,)))

    cases = planned_cases(at, sweep)
    here = app(scene.folder)
    files = Files(here, type("Project", (), {"manifest": found}), GIVEN)  # type: ignore[arg-type]
    device = PlannedDevice(lambda case, n: times(case, n) * (1 + n))
    bench_run.measure_cases(
        here,
        GIVEN,
        files,
        device,
        opened(),
        bench_run.BenchPlan(cases=cases, sweep=sweep),
        found,
    )
    return scene.capsys.readouterr().out


def tune(scene: Scene) -> str:
    space = spaces_of(kernel_with(Case(name="4k", inputs=(A, B, C))), planned(), ())[0]
    tune_show.Display(app(scene.folder), lambda: 0.0).case_ended(test_tune_command.result_of(space))
    return scene.capsys.readouterr().out


def errors(scene: Scene) -> str:
    scene.ran("new", "acme")
    lines = [
        ("run", "scal"),
        ("run", "--device", "gpu"),
        ("run", "--set", "x"),
        ("bench", "--fail-slower", "5%"),
        ("bench", "--sweep", "n=9..1"),
        ("build", "--targest", "sm_90"),
    ]
    return "".join(
        f"$ tilec {' '.join(line)}\n{scene.ran('-C', 'acme', *line)}\n" for line in lines
    )


def sanitize_gpu(scene: Scene) -> str:
    return _watched(
        scene,
        ("compute-sanitizer", '[ "$2" != memcheck ] || exit 86'),
        *("sanitize", "--device", "cuda", "--case", "some"),
    )


def sanitize_gpu_missing(scene: Scene) -> str:
    return _watched(scene, (), "sanitize", "--device", "cuda")


def profile_refused(scene: Scene) -> str:
    return _watched(scene, ("ncu", "exit 1"), "profile", "scale/some")


def debug(scene: Scene) -> str:
    return _watched(scene, ("cuda-gdb", "exit 0"), "debug", "scale/some")


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


def _watched(scene: Scene, tool: tuple[str, ...], *words: str) -> str:
    """What a command shows over a pretended GPU, whose project has at most one of NVIDIA's tools."""
    watched = scene.fixture("watched")
    if tool:
        write_tool(scene.folder, *tool)
    done = watched(*words, "--bundle", "acme.tilec")
    return f"{done.out}{done.err}"


CAPTURES = {
    make.__name__.replace("_", "-"): make
    for make in (
        *(new, check, build, build_fails, clean, doctor),
        *(bench, bench_sweep, tune, errors),
        *(sanitize_gpu, sanitize_gpu_missing, profile_refused),
        *(debug, help_of_all),
    )
}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", CAPTURES)
def test_how_it_looks(name: str, width: int, scene_of: SceneOf, golden: Golden) -> None:
    scene = scene_of(width)
    text = re.sub(r"[^\n]*\r\x1b\[2K", "", CAPTURES[name](scene))
    hold(name, click.unstyle(text), scene.folder, width, golden)
