"""`tilec profile` and `tilec debug` with NVIDIA's own tools, on a case that needs no compiler: a bundle with PTX."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.conftest import ROOT
from tilec.bundle.write import write_bundle
from tilec.errors import Location, ToolchainError
from tilec.frontends.base import ToolSearch
from tilec.model.arch import Target
from tilec.model.digest import sha256
from tilec.model.image import ImageInfo
from tilec.model.kernel import BundleInfo, KernelInfo, LaunchInfo, PackageInfo, VariantInfo
from tilec.model.signature import AbiSlot, Param, ParamKind
from tilec.runner.tools import find_outside_tool

pytestmark = pytest.mark.gpu
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


def test_a_copy_is_bound_by_memory(project: Path) -> None:
    need("ncu")
    done = tilec(project, "profile", "twice/large", "--bundle", "watched.tilec", "--json")
    if done.returncode == 3 and "ERR_NVGPUCTRPERM" in done.stderr:
        pytest.skip("this user may not read the GPU's counters, and is told so")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["case"], document["variant"]) == ("twice/large", "twice")
    assert document["summary"]["bound"] == "memory"
    assert document["summary"]["levels"]["DRAM"] > 60
    assert document["summary"]["seconds"] > 0
    assert document["summary"]["theoretical"] > document["summary"]["achieved"] > 0
    assert document["summary"]["stalls"]
    assert Path(document["report"]).stat().st_size > 0


def test_the_debugger_stops_in_the_kernel(project: Path) -> None:
    need("cuda-gdb")
    orders = ("--ex", "run", "--ex", "info cuda kernels", "--ex", "kill")
    done = tilec(project, "debug", "twice/large", "--bundle", "watched.tilec", "--batch", *orders)
    assert "Switching focus to CUDA kernel 0" in done.stdout, done.stdout + done.stderr
    assert "twice" in done.stdout, done.stdout + done.stderr
