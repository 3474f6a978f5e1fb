"""`tilec profile`, `tilec debug` and `tilec sanitize` with NVIDIA's own tools, on bundles that need
no compiler here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.conftest import ROOT
from tilec.case.tools import find_outside_tool
from tilec.frontends.base import ToolSearch
from tilec.package.write import write_bundle
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
    image = ImageInfo(
        target=Target.parse("compute_80"),
        digest=sha256(data),
        size=len(data),
        symbol="twice",
        ptx_isa=(7, 0),
    )
    slots = (
        AbiSlot(type="ptr", expr="y.ptr", size=8, align=8),
        AbiSlot(type="i32", expr="y.size", size=4, align=4),
    )
    kernel = KernelInfo(
        name="twice",
        language="cuda",
        location=Location(file="twice.cu", line=1),
        params=(Param(name="y", kind=ParamKind.TENSOR, dtype="f32", rank=1, out=True),),
        launch=LaunchInfo(grid=("cdiv(y.size, 256)",), block=("256",)),
        variants=(VariantInfo(id="twice", abi=slots, images=(image,)),),
        jit=JitFallback.ALLOW,
    )
    info = BundleInfo(
        package=PackageInfo(name="watched", version="1.0", module="watched"), kernels=(kernel,)
    )
    write_bundle(tmp_path / "watched.tilec", info, lambda _digest: data)
    return tmp_path


def tilec(project: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from tilec.cli.main import main; main()", *args]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    return subprocess.run(
        command, cwd=project, env=env, capture_output=True, text=True, timeout=300, check=False
    )


def need(tool: str) -> None:
    try:
        find_outside_tool(
            tool,
            ToolSearch(path=os.environ.get("PATH", ""), cuda_home=os.environ.get("CUDA_HOME", "")),
        )
    except ToolchainError:
        pytest.skip(f"there is no {tool}")


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    """Kernels with planted defects, and kernels that one thing bounds, with a bundle of them."""
    shutil.copytree(WATCHED, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_a_launch_is_profiled(watched: Path) -> None:
    need("ncu")
    done = tilec(watched, "profile", "copied_wide/large", "--bundle", "watched.tilec")
    if "ERR_NVGPUCTRPERM" in done.stdout + done.stderr:
        pytest.skip("this user may not read the GPU's counters, and is told so")
    assert done.returncode == 0, done.stderr
    assert "Memory Throughput" in done.stdout, done.stdout  # ncu's own words
    assert (watched / ".tilec" / "profile" / "copied_wide.large.ncu-rep").stat().st_size > 0


# Each case, the tool that finds its defect, and the source line with the defect.
DEFECTS = [
    ("beyond/tail", "memcheck", "four elements behind the end"),
    # y ends where the driver may put x: memcheck finds it because of the padding between them.
    ("beyond/neighbour", "memcheck", "four elements behind the end"),
    ("skewed/some", "memcheck", "16 bytes at an address that 4 divides"),
    ("narrow/some", "memcheck", "there is no such shared memory"),
    ("unset/some", "initcheck", "nothing has written y"),
    ("parted/some", "synccheck", "the other half of the warp waits elsewhere"),
    ("turned/some", "racecheck", "no barrier in between"),
]


def line_of(file: str, text: str) -> int:
    return next(
        number
        for number, line in enumerate((WATCHED / file).read_text().splitlines(), 1)
        if text in line
    )


def sanitized(folder: Path, case: str, tool: str) -> subprocess.CompletedProcess[str]:
    need("compute-sanitizer")
    kernel, _, name = case.partition("/")
    done = tilec(
        folder,
        "sanitize",
        kernel,
        "--case",
        name,
        "--device",
        "cuda",
        "--tool",
        tool,
        "--bundle",
        "watched.tilec",
    )
    if "Device not supported" in done.stdout:
        pytest.skip("compute-sanitizer does not work on this machine")
    return done


@pytest.mark.parametrize(("case", "tool", "line"), DEFECTS)
def test_planted_defects_are_found_at_their_lines(
    watched: Path, case: str, tool: str, line: str
) -> None:
    done = sanitized(watched, case, tool)
    assert done.returncode == 86, done.stdout + done.stderr
    assert f"planted.cu:{line_of('planted.cu', line)}" in done.stdout, done.stdout


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
def test_a_good_kernel_is_clean(watched: Path, tool: str) -> None:
    done = sanitized(watched, "fine/some", tool)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_debugger_stops_in_the_kernel(project: Path) -> None:
    need("cuda-gdb")
    orders = ("--ex", "run", "--ex", "info cuda kernels", "--ex", "kill")
    done = tilec(project, "debug", "twice/large", "--bundle", "watched.tilec", "--batch", *orders)
    assert "Switching focus to CUDA kernel 0" in done.stdout, done.stdout + done.stderr
    assert "twice" in done.stdout, done.stdout + done.stderr
