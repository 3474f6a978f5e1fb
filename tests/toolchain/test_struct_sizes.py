"""Structs by value whose size only the compiler knows: the launcher takes what was compiled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilec import build
from tilec.compile.events import Observer
from tilec.frontends.base import ToolSearch
from tilec_runtime.errors import CompileError

pytestmark = pytest.mark.toolchain

HEAD = 'edition = 1\n[package]\nname = "p"\nversion = "1"\n[targets]\ndefault = ["sm_90"]\n[kernel.k]\nsource = "k.cu"\n'


def run(root: Path, source: str, manifest: str) -> build.BuildResult:
    (root / "k.cu").write_text(source)
    (root / "tilec.toml").write_text(HEAD + manifest)
    request = build.BuildRequest(
        manifest_path=root / "tilec.toml", search=ToolSearch(path=os.environ.get("PATH", ""))
    )
    return build.build(request, Observer())


def test_the_launcher_takes_the_bytes_that_were_compiled(tmp_path: Path) -> None:
    box = "struct Box { float lo, hi; int mode; };\n"
    source = (
        box
        + 'extern "C" __global__ void k(float* y, const __grid_constant__ Box box) { y[0] = box.lo; }\n'
    )
    result = run(tmp_path, source, "launch = { grid = [1], block = [32] }\n")
    assert result.info is not None
    param = result.info.kernels[0].params[1]
    assert (param.name, param.size) == ("box", 12)
    assert (
        "box: 12 bytes, passed by value" in (tmp_path / "dist" / "p" / "__init__.pyi").read_text()
    )


def test_variants_that_take_different_structs_have_no_common_launcher(tmp_path: Path) -> None:
    source = "template <int N> struct Box { float v[N]; };\ntemplate <int N> __global__ void k(float* y, Box<N> box) { y[0] = box.v[N - 1]; }\n"
    manifest = 'symbol = "k<{N}>"\nmatrix = { N = [2, 4] }\nlaunch = { grid = [1], block = [32] }\n'
    with pytest.raises(
        CompileError,
        match="struct 'box' has 8 bytes in k-N2, 16 bytes in k-N4: one launcher takes one size",
    ):
        run(tmp_path, source, manifest)
    assert not (tmp_path / "dist").exists()
