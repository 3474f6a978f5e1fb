"""`tilec profile`, `tilec debug` and `tilec sanitize` with NVIDIA's own tools, on bundles that need no compiler here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.conftest import ROOT
from tilec.frontends.base import ToolSearch
from tilec.runner.tools import find_outside_tool
from tilec_runtime.bundle.write import write_bundle
from tilec_runtime.errors import Location, ToolchainError
from tilec_runtime.model.arch import Target
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, LaunchInfo, PackageInfo, VariantInfo
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind

pytestmark = pytest.mark.gpu
WATCHED = ROOT / "tests" / "samples" / "watched"
PTX = """\
.version 7.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 y, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<5>;
    .reg .f32 %f;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [y];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p, %r2, %r1;
    @%p ret;
    cvta.to.global.u64 %rd1, %rd1;
    mul.wide.u32 %rd2, %r2, 4;
    add.u64 %rd1, %rd1, %rd2;
    ld.global.f32 %f, [%rd1];
    add.f32 %f, %f, %f;
    st.global.f32 [%rd1], %f;
    ret;
}
"""
MANIFEST = """\
edition = 1
[package]
name = "watched"
version = "1.0"
[targets]
default = ["compute_80"]
[kernel.twice]
source = "twice.cu"
launch = { grid = ["cdiv(y.size, 256)"], block = [256] }
args = ["y.ptr", "i32(y.size)"]
params = { y = { rank = 1, out = true } }
[kernel.twice.case.large]
inputs.y = { shape = [16777216], dtype = "f32", dist = "ones" }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tilec.toml").write_text(MANIFEST)
    (tmp_path / "twice.cu").write_text('extern "C" __global__ void twice(float* y, int n) {}\n')
    data = PTX.encode()
    image = ImageInfo(target=Target.parse("compute_80"), digest=sha256(data), size=len(data), symbol="twice", ptx_isa=(7, 0))
    slots = (AbiSlot(type="ptr", expr="y.ptr", size=8, align=8), AbiSlot(type="i32", expr="y.size", size=4, align=4))
    kernel = KernelInfo(
        name="twice",
        language="cuda",
        location=Location(file="twice.cu", line=1),
        params=(Param(name="y", kind=ParamKind.TENSOR, dtype="f32", rank=1, out=True),),
        launch=LaunchInfo(grid=("cdiv(y.size, 256)",), block=("256",)),
        variants=(VariantInfo(id="twice", abi=slots, images=(image,)),),
        jit=JitFallback.ALLOW,
    )
    info = BundleInfo(package=PackageInfo(name="watched", version="1.0", module="watched"), kernels=(kernel,))
    write_bundle(tmp_path / "watched.tilec", info, lambda _digest: data)
    return tmp_path


def tilec(project: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from tilec.cli.main import main; main()", *args]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=300, check=False)


def need(tool: str) -> None:
    try:
        find_outside_tool(tool, ToolSearch(path=os.environ.get("PATH", ""), cuda_home=os.environ.get("CUDA_HOME", "")))
    except ToolchainError:
        pytest.skip(f"there is no {tool}")


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    """Kernels with planted defects, and kernels that one thing bounds, with a bundle of them."""
    shutil.copytree(WATCHED, tmp_path, dirs_exist_ok=True)
    return tmp_path


def profiled(folder: Path, case: str, bundle: str) -> dict[str, Any]:
    need("ncu")
    done = tilec(folder, "profile", case, "--bundle", bundle, "--json")
    if done.returncode == 3 and "ERR_NVGPUCTRPERM" in done.stderr:
        pytest.skip("this user may not read the GPU's counters, and is told so")
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_a_copy_is_bound_by_memory(watched: Path) -> None:
    """With 16 bytes in a thread; what a launch with 4 of them may be bound by is the wait for memory."""
    document = profiled(watched, "copied_wide/large", "watched.tilec")
    assert (document["case"], document["variant"]) == ("copied_wide/large", "copied_wide")
    assert document["summary"]["bound"] == "memory", document["summary"]
    assert document["summary"]["levels"]["DRAM"] > 60
    assert document["summary"]["words"][0].startswith("memory bounds it, DRAM most")
    assert document["summary"]["seconds"] > 0
    assert document["summary"]["theoretical"] >= document["summary"]["achieved"] > 0
    assert document["summary"]["stalls"]
    assert document["lines"][0]["place"] == f"bounds.cu:{line_of('bounds.cu', 'with enough under way')}"
    assert Path(document["report"]).stat().st_size > 0


def test_a_kernel_of_ptx_is_profiled_by_its_instructions(project: Path) -> None:
    """A copy of 4 bytes in a thread: on some GPUs memory bounds it, on faster ones it waits for memory."""
    document = profiled(project, "twice/large", "watched.tilec")
    assert document["summary"]["bound"] in ("memory", "memory_latency"), document["summary"]
    assert document["summary"]["stalls"].get("long_scoreboard", 0) > 50
    assert document["note"] == "no source lines: the launch took code that the driver compiled"


@pytest.mark.parametrize(
    ("case", "bound", "words"),
    [
        ("waiting/some", "memory_latency", "it waits for memory"),
        ("conflicted/some", "memory", "memory bounds it, L1 and shared memory most"),
    ],
)
def test_what_bounds_a_kernel(watched: Path, case: str, bound: str, words: str) -> None:
    summary = profiled(watched, case, "watched.tilec")["summary"]
    assert summary["bound"] == bound, summary
    assert summary["words"][0].startswith(words)
    assert (summary["shared_cost"] or 1) > 20 if case == "conflicted/some" else summary["theoretical"] < 25


DEFECTS = [
    ("beyond/tail", "memcheck", "out of bounds", "four elements behind the end", ("y", [300], 4)),
    # y ends where the driver may put x: it is found because tilec keeps them apart.
    ("beyond/neighbour", "memcheck", "out of bounds", "four elements behind the end", ("y", [512], 4)),
    ("skewed/some", "memcheck", "misaligned address", "16 bytes at an address that 4 divides", ("y", [1], 4)),
    ("narrow/some", "memcheck", "out of bounds", "there is no such shared memory", ("", [], 128)),
    ("unset/some", "initcheck", "uninitialized read", "nothing has written y", ("y", None, 300)),
    ("parted/some", "synccheck", "barrier", "the other half of the warp waits elsewhere", ("", [], None)),
]


def line_of(file: str, text: str) -> int:
    return next(number for number, line in enumerate((WATCHED / file).read_text().splitlines(), 1) if text in line)


def sanitized(folder: Path, case: str, tool: str) -> tuple[int, dict[str, Any]]:
    need("compute-sanitizer")
    kernel, _, name = case.partition("/")
    words = (kernel, "--case", name, "--device", "cuda", "--tool", tool, "--timeout", "120", "--bundle", "watched.tilec", "--json")
    done = tilec(folder, "sanitize", *words)
    if done.returncode == 3 and "cannot work on" in done.stderr:
        pytest.skip("compute-sanitizer does not work on this machine, and that is told")
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    (case_found,) = document["cases"]
    return done.returncode, case_found


@pytest.mark.parametrize(("case", "tool", "kind", "line", "element"), DEFECTS)
def test_planted_defects_are_found_at_their_lines(
    watched: Path, case: str, tool: str, kind: str, line: str, element: tuple[str, list[int] | None, int | None]
) -> None:
    code, found = sanitized(watched, case, tool)
    assert (code, found["status"]) == (86, "findings"), found
    place = {"file": "planted.cu", "line": line_of("planted.cu", line), "column": 0}
    (finding,) = [one for one in found["findings"] if one["location"] == place]
    parameter, index, count = element
    assert (finding["tool"], finding["kind"], finding["parameter"]) == (tool, kind, parameter)
    assert index is None or finding["index"] == index
    assert count is None or finding["count"] == count
    assert (len(finding["block"]), len(finding["thread"])) == (3, 3)


def test_a_race_in_shared_memory_is_found_with_both_its_lines(watched: Path) -> None:
    code, found = sanitized(watched, "turned/some", "racecheck")
    assert (code, len(found["findings"])) == (86, 1), found
    race = found["findings"][0]
    lines = {race["location"]["line"], race["other"]["location"]["line"]}
    assert (race["kind"], lines) == ("read-write race", {(second := line_of("planted.cu", "no barrier in between")) - 1, second})
    assert race["count"] > 100
    assert sum(race["thread"]) + sum(race["other"]["thread"]) == 127  # the threads that share an element


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
def test_a_good_kernel_is_clean(watched: Path, tool: str) -> None:
    code, found = sanitized(watched, "fine/some", tool)
    assert (code, found["status"], found["findings"], found["notes"]) == (0, "clean", [], []), found


def test_the_debugger_stops_in_the_kernel(project: Path) -> None:
    need("cuda-gdb")
    orders = ("--ex", "run", "--ex", "info cuda kernels", "--ex", "kill")
    done = tilec(project, "debug", "twice/large", "--bundle", "watched.tilec", "--batch", *orders)
    assert "Switching focus to CUDA kernel 0" in done.stdout, done.stdout + done.stderr
    assert "twice" in done.stdout, done.stdout + done.stderr
