from __future__ import annotations

import dataclasses
import itertools
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.bundle_samples import Sample
from tilec import planning
from tilec.manifest.types import Case, Matrix
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, KernelSpec, Source, Variant
from tilec.package.outputs import Output
from tilec_runtime.errors import (
    Diagnostic,
    Location,
)
from tilec_runtime.model.arch import Target
from tilec_runtime.model.kernel import KernelInfo, LaunchInfo
from tilec_runtime.model.signature import Assumption, Param, ParamKind
from tilec_runtime.model.table import DispatchRule


def result(project: Path, **kwargs: object) -> SimpleNamespace:
    dist = project / "dist"
    outputs = (
        Output(
            kind="bundle", path=str(dist / "acme-kernels-0.3.0.tilec"), size=45116, digest="0" * 64
        ),
        Output(
            kind="package",
            path=str(dist / "acme_kernels" / "acme_kernels-00.tilec"),
            size=45116,
            digest="0" * 64,
        ),
        Output(
            kind="package",
            path=str(dist / "acme_kernels" / "__init__.py"),
            size=9000,
            digest="1" * 64,
        ),
        Output(
            kind="cubin",
            path=str(dist / "cubin" / "a.cubin"),
            size=100,
            digest="2" * 64,
            changed=False,
        ),
    )
    values = {
        "outputs": outputs,
        "info": Sample().info(),
        "jobs": 24,
        "compiled": 20,
        "cached": 4,
        "seconds": 7.34,
        "up_to_date": False,
        "warnings": (),
        "notes": (),
        "remote": 0,
        "usage": None,
    }
    return SimpleNamespace(**{**values, **kwargs})


def test_nothing_to_do_is_one_line(cli, project: Path, fake_build) -> None:
    fake_build.build = lambda request, observer: result(
        project, up_to_date=True, info=None, compiled=0, cached=24, seconds=0.084, notes=("n",)
    )
    done = cli("build")
    assert (done.out, done.err) == ("up to date (24 jobs, 0.08 s)\n", "")
    assert cli("build", "-v").err.endswith("note: n\n")


def test_warnings_come_once_and_notes_too(cli, project: Path, fake_build) -> None:
    warning = Diagnostic(
        message="unused variable",
        severity="warning",
        location=Location(file="a.cu", line=3, column=7),
    )
    many = tuple(Diagnostic(message=f"number {i}", severity="warning") for i in range(12))
    fake_build.build = lambda request, observer: result(
        project, warnings=(warning, warning, *many), notes=("tileir is left out",)
    )
    err = cli("build").err
    assert err.count("a.cu:3:7: warning: unused variable\n") == 1
    assert "… and 3 more warnings (--verbose shows them)\n" in err
    assert err.endswith("note: tileir is left out\n")
    assert "number 11" in cli("build", "-v").err
    quiet = cli("build", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_json_of_a_build(cli, project: Path, fake_build) -> None:
    fake_build.build = lambda request, observer: result(project)
    done = cli("build", "--json")
    document = json.loads(done.out)
    assert (document["schema_version"], document["kind"], document["ok"]) == (1, "build", True)
    assert (document["jobs"], document["compiled"], document["cached"], document["seconds"]) == (
        24,
        20,
        4,
        7.34,
    )
    assert document["outputs"][0] == {
        "kind": "bundle",
        "path": str(project / "dist" / "acme-kernels-0.3.0.tilec"),
        "size": 45116,
        "changed": True,
    }
    assert [kernel["name"] for kernel in document["kernels"]] == ["add", "rmsnorm"]
    assert done.err == ""


def test_options_reach_the_request(cli, project: Path, fake_build) -> None:
    seen = []
    fake_build.build = lambda request, observer: seen.append(request) or result(project)
    env = {
        "TILEC_CACHE_DIR": "/c",
        "TILEC_CACHE_MAX": "1 MiB",
        "CUDA_HOME": "/cuda",
        "PATH": "/bin",
    }
    line = "build --targets sm_90,ci --targets sm_90 --select gemm-* --select add --profile debug -j 3 --emit wheel,ptx --force --locked"
    assert cli(*line.split(), env=env).code == 0
    assert cli("build", "--no-cache", env=env).code == 0
    assert cli("build", env={**env, "TILEC_SHARED_CACHE": "/t"}).code == 0
    assert cli("build", "--locked", env=env).code == 0
    request, second, third, fourth = seen
    assert (third.remote.url, third.remote.mode) == ("file:///t", "write")
    assert (third.search.state_dir, third.search.verify) == ("/c", False)
    assert (fourth.search.state_dir, fourth.search.verify) == ("", True), (
        "the files themselves are hashed"
    )
    assert request.manifest_path == project / "tilec.toml"
    assert (request.targets, request.select, request.emit) == (
        ("sm_90", "ci"),
        ("gemm-*", "add"),
        ("wheel", "ptx"),
    )
    assert (request.profile, request.workers, request.force, request.locked) == (
        "debug",
        3,
        True,
        True,
    )
    assert (request.cache_dir, request.cache_max) == (Path("/c"), 1 << 20)
    assert (request.search.cuda_home, request.search.path) == ("/cuda", "/bin")
    assert (second.cache_dir, second.targets, second.force, second.locked) == (
        None,
        (),
        False,
        False,
    )


def test_interrupt_says_what_was_written(cli, project: Path, fake_build) -> None:
    def interrupted(request: object, observer: object) -> None:
        raise KeyboardInterrupt

    fake_build.build = interrupted
    done = cli("build")
    assert (done.code, done.out) == (130, "")
    assert done.err == "\ninterrupted: a build writes every output, or none\n"
    document = json.loads(cli("build", "--json").out)
    assert (document["kind"], document["exit_code"]) == ("error", 130)
    assert document["error"]["what"] == "interrupted: a build writes every output, or none"


def jobs(project: Path) -> tuple[Job, ...]:
    place = Location(file="kernels/gemm.py", line=3, column=1)
    source = Source(root=str(project), path="kernels/gemm.py")
    spec = KernelSpec(
        name="gemm",
        language="tile",
        source=source,
        decl=KernelDecl(name="gemm", location=place),
        symbol="gemm",
        params=(),
    )
    fast = Variant(
        kernel="gemm",
        id="gemm-f16-a16",
        axes=(("T", "f16"),),
        assume=(Assumption(param="a", shape=(16, 16), align=16),),
    )
    plain = Variant(kernel="gemm", id="gemm-f16", axes=(("T", "f16"),))
    return tuple(
        Job(spec=spec, variant=v, target=Target.parse(t), hints=(("occupancy", 2),))
        for v in (fast, plain)
        for t in ("sm_80", "sm_90")
    )


def test_the_plan_is_listed(cli, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = SimpleNamespace(jobs=jobs(project), notes=("gemm: compute_80 is left out",))
    monkeypatch.setattr(planning, "plan_only", lambda request, observer: plan)
    done = cli("build", "--list")
    assert done.code == 0
    assert (
        done.out
        == """\
job                 language  target  assumes
gemm-f16-a16-sm_80  tile      sm_80   a: shape divisible by 16,16, base by 16
gemm-f16-a16-sm_90  tile      sm_90   a: shape divisible by 16,16, base by 16
gemm-f16-sm_80      tile      sm_80   -
gemm-f16-sm_90      tile      sm_90   -

4 jobs; nothing was compiled
"""
    )
    assert done.err == "note: gemm: compute_80 is left out\n"
    document = json.loads(cli("build", "--list", "--json").out)
    assert (document["kind"], document["notes"]) == ("plan", ["gemm: compute_80 is left out"])
    assert document["jobs"][0] == {
        "id": "gemm-f16-a16-sm_80",
        "kernel": "gemm",
        "variant": "gemm-f16-a16",
        "language": "tile",
        "source": "kernels/gemm.py",
        "target": "sm_80",
        "axes": {"T": "f16"},
        "assume": [
            {
                "param": "a",
                "shape": [16, 16],
                "stride": [],
                "align": 16,
                "extent": [],
                "contiguous": False,
                "absent": False,
            }
        ],
        "hints": {"occupancy": 2},
    }


@pytest.fixture
def noted(cli, project: Path, monkeypatch: pytest.MonkeyPatch):
    """What `check` says of kernels: each has these jobs and these cases."""

    def of(*infos: KernelInfo, jobs: tuple[object, ...] = (), cases: tuple[Case, ...] = ()) -> str:
        manifest = SimpleNamespace(matrix=Matrix(), cases=cases)
        kernels = [SimpleNamespace(info=info, manifest=manifest, jobs=jobs) for info in infos]
        plan = SimpleNamespace(
            manifest=SimpleNamespace(chains=()), kernels=kernels, jobs=(), notes=()
        )
        monkeypatch.setattr(planning, "check", lambda request, observer: plan)
        return cli("check").err

    return of


def test_check_notes_axes_that_a_launch_must_choose(noted) -> None:
    axes = (("T", ("f32", "f16")), ("BM", (32, 64)), ("FAST", (False, True)), ("BN", (8, 16)))
    shared = {"language": "tile", "location": Location(file="k.py", line=1), "axes": axes}
    default = (("BN", 8),)
    data = Param(name="x", kind=ParamKind.TENSOR, dtype="T", rank=1)
    info = KernelInfo(name="k", params=(data,), dtype_axes=("T",), default=default, **shared)
    ruled = dataclasses.replace(info, rules=(DispatchRule(when="", take=(("BM", 32),)),))
    points = itertools.product(*([(name, value) for value in values] for name, values in axes))
    crossed = tuple(SimpleNamespace(variant=SimpleNamespace(axes=point)) for point in points)
    assert noted(info, ruled, jobs=crossed) == (
        "note: kernel k: a launch must choose BM and FAST; dispatch.default = "
        "{ BM = 32, FAST = false } is a default for launches and cases\n"
        "note: kernel k: a launch must choose FAST; dispatch.default = { FAST = false } is a default "
        "for launches and cases\n"
    )


@pytest.mark.parametrize(
    ("requires", "changes", "note"),
    [
        (
            "x.shape[1] == 4 * N",
            {},
            'needs x.shape[1] == 4 * N, so let rules choose N: dispatch.rules = [{ when = "x.shape[1] == 4 * 32", take = { N = 32 } }, …]',
        ),
        (
            "x.shape[1:] == (M, N)",
            {"default": (("N", 32), ("M", 1))},
            'needs x.shape[1:] == (M, N), so let rules choose N: dispatch.rules = [{ when = "x.shape[1:] == (1, 32)", take = { N = 32 } }, …]',
        ),
        ("x.shape[1] % N == 0", {"default": (("N", 32),)}, ""),
        ("x.shape[1] == cdiv(x.shape[0], N)", {"default": (("N", 32),)}, ""),
        ("x.shape[1] == N", {"rules": (DispatchRule(when="", take=(("N", 32),)),)}, ""),
    ],
)
def test_check_notes_axes_that_equal_an_extent(
    noted, requires: str, changes: dict[str, object], note: str
) -> None:
    info = KernelInfo(
        name="k",
        language="tile",
        location=Location(file="k.py", line=1),
        axes=(("M", (1,)), ("N", (32, 64))),
        params=(Param(name="x", kind=ParamKind.TENSOR, dtype="f32", rank=2),),
        launch=LaunchInfo(requires=(requires,)),
        **changes,
    )
    assert noted(info) == (f"note: kernel k: a launch {note}\n" if note else "")


def test_check_notes_cases_without_a_reference(noted) -> None:
    cases = (Case(name="one"), Case(name="two"), Case(name="three", reference="ref.py:k"))
    info = KernelInfo(name="k", language="tile", location=Location(file="k.py", line=1))
    assert noted(info, cases=cases) == (
        "note: kernel k: cases without a reference: one, two; add reference = "
        '"FILE.py:FUNCTION", so that tilec run compares results\n'
    )


def test_a_build_with_nothing_to_do_imports_no_display(tmp_path: Path) -> None:
    """What it prints costs no import of rich, jinja2 or the reports."""
    code = (
        "import sys, types, tilec\n"
        "build = types.ModuleType('tilec.build')\n"
        "class BuildRequest:\n"
        "    def __init__(self, **values): self.__dict__.update(values)\n"
        "planning = types.ModuleType('tilec.planning')\n"
        "planning.BuildRequest = BuildRequest\n"
        "sys.modules['tilec.planning'] = planning\n"
        "result = types.SimpleNamespace(outputs=(), info=None, jobs=3, compiled=0, cached=3, seconds=0.1, up_to_date=True,\n"
        "                               warnings=(), notes=())\n"
        "build.build = lambda request, observer: observer.started(3, 3) or result\n"
        "sys.modules['tilec.build'] = tilec.build = build\n"
        "from tilec.cli.main import run\n"
        "assert run(['build']) == 0\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('rich', 'jinja2', 'numpy', 'difflib') or m.startswith('tilec.inspection')])\n"
    )
    (tmp_path / "tilec.toml").write_text("edition = 1\n")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert (done.stderr, done.stdout) == ("", "up to date (3 jobs, 0.10 s)\n[]\n")
