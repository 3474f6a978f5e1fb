"""A project with a kernel of every language, built on a cluster of processes and on this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import distributed
import pytest

from tilec.build import build
from tilec.frontends.base import ToolSearch
from tilec.planning import BuildRequest
from tilec.testing.fakes import MemoryObserver

pytestmark = [pytest.mark.toolchain, pytest.mark.long]

EXAMPLES = Path(__file__).parents[2] / "examples"
MANIFEST = """\
edition = 1
[package]
name = "farm"
version = "1.0"
[targets]
default = ["sm_90"]
[frontend.cuda]
include = ["cuda/include"]
[kernel.stencil]
source = "cuda/stencil.cu"
params = { y = { rank = 2, out = true }, x = { rank = 2 }, alpha = {} }
args = ["y.ptr", "x.ptr", "i32(x.shape[0])", "i32(x.shape[1])", "alpha"]
launch = { grid = ["cdiv(x.shape[1], 32)", "cdiv(x.shape[0], 32)"], block = [32, 8] }
[kernel.tile_saxpy]
source = "tile/saxpy.py:saxpy"
matrix = { TILE = [1024] }
params = { y = { dtype = "f32", rank = 1, out = true }, x = { dtype = "f32", rank = 1 }, alpha = { dtype = "f32" } }
launch = { grid = ["cdiv(y.shape[0], TILE)"] }
[kernel.clamp]
source = "simt/elementwise.py"
language = "simt"
launch = { grid = ["cdiv(y.size, 256)"], block = [256] }
[kernel.triton_add]
source = "triton/add.py:add_kernel"
language = "triton"
matrix = { T = ["f32"], BLOCK = [1024] }
params = { z = { dtype = "T", rank = 1, out = true }, x = { dtype = "T", rank = 1 }, y = { dtype = "T", rank = 1 } }
args = ["x.ptr", "y.ptr", "z.ptr", "i32(z.size)"]
launch = { requires = ["z.size < 2147483648"], grid = ["cdiv(z.size, BLOCK)"] }
[kernel.square_add]
source = "prebuilt/square_add.ptx"
sha256 = "74325aa2756592e91ad5bb24734937c690a09938eb8b2b23ecb3c371d7df2afd"
params = { y = { dtype = "f32" }, x = { dtype = "f32", out = false }, c = {} }
args = ["y.ptr", "x.ptr", "c", "i64(x.size)"]
launch = { grid = ["cdiv(x.size, 256)"], block = [256] }
"""
KERNELS = 5


def test_every_language_gives_the_same_bytes_on_a_cluster(tmp_path: Path) -> None:
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as cluster:
        there = outputs(tmp_path / "there", cluster.scheduler_address)
    assert outputs(tmp_path / "here", "") == there


def outputs(root: Path, scheduler: str) -> dict[str, bytes]:
    shutil.copytree(EXAMPLES, root, ignore=shutil.ignore_patterns("tilec.*", "dist", "__pycache__"))
    (root / "tilec.toml").write_text(MANIFEST)
    observer = MemoryObserver()
    request = BuildRequest(
        manifest_path=root / "tilec.toml",
        cache_dir=root / "cache",
        workers=2,
        scheduler=scheduler,
        search=ToolSearch(path=os.environ.get("PATH", ""), state_dir=str(root / "cache")),
    )
    result = build(request, observer)
    assert (result.jobs, result.compiled) == (KERNELS, KERNELS)
    assert observer.notes == []  # no job stayed here for a reason
    return {path.name: path.read_bytes() for path in (root / "dist").iterdir() if path.is_file()}
