"""Parts of the triton frontend that need no Triton: targets, versions, the environment, and what
its compiler writes.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilec.frontends.base import BUILTIN, ToolSearch
from tilec.frontends.tools.packages import require_minor
from tilec.frontends.triton import api
from tilec.frontends.triton.frontend import TritonFrontend
from tilec.frontends.triton.writes import Function, accesses
from tilec_runtime.errors import ToolchainError
from tilec_runtime.model.arch import Target


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("sm_80", ""),
        ("sm_90", ""),
        ("sm_90a", ""),
        ("sm_100", ""),
        ("sm_120", ""),
        ("compute_80", ""),
        ("compute_89", ""),
        ("compute_90a", ""),
        (
            "tileir",
            "Triton kernels become cubins or PTX, not Tile IR: use sm_80, sm_90, … or compute_80",
        ),
        ("sm_75", "Triton kernels cannot be compiled for sm_75: the oldest architecture is sm_80"),
        ("sm_100f", "Triton makes code for one architecture, not for a family: use sm_100"),
        (
            "compute_90",
            "Triton's PTX for compute_90 runs on that architecture alone: use compute_90a, or compute_80 for PTX that later ones take",
        ),
    ],
)
def test_targets(target: str, why: str) -> None:
    assert TritonFrontend(ToolSearch()).refuse(Target.parse(target)) == why


@pytest.mark.parametrize("version", ["3.8.1", "3.10.0", "4.0", "39.0", "3"])
def test_versions_that_were_not_tested_are_refused(version: str) -> None:
    with pytest.raises(ToolchainError) as caught:
        require_minor("triton", version, api.TESTED, api.FIX)
    assert caught.value.what == f"triton is of version {version}, and tilec compiles with 3.9"
    assert caught.value.fix == "pip install 'tilec[triton]'"


def test_a_triton_that_is_missing_half_there_or_of_another_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ToolchainError) as caught:
        TritonFrontend(ToolSearch()).toolchain()
    assert (caught.value.what, caught.value.fix) == (
        "triton is not installed: Triton kernels cannot be compiled",
        "pip install 'tilec[triton]'",
    )
    info = tmp_path / "triton-3.8.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_text("triton/__init__.py,sha256=x,1\n")
    (info / "METADATA").write_text("Name: triton\nVersion: 3.8.0\n")
    with pytest.raises(
        ToolchainError, match=r"triton is half installed: .*__init__\.py is missing"
    ):
        TritonFrontend(ToolSearch()).toolchain()
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").touch()
    with pytest.raises(
        ToolchainError, match=r"triton is of version 3\.8\.0, and tilec compiles with 3\.9"
    ):
        TritonFrontend(ToolSearch()).toolchain()


def test_the_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("DISABLE_LLVM_OPT", "1")
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    monkeypatch.setenv("OTHER", "1")
    with api.environment():
        assert {
            k: v for k, v in os.environ.items() if k.startswith(("TRITON_", "DISABLE_", "OTHER"))
        } == {
            "OTHER": "1",
            "TRITON_DEFAULT_FP_FUSION": "1",
        }
    assert os.environ["TRITON_INTERPRET"] == "1"
    assert os.environ["TRITON_DEFAULT_FP_FUSION"] == "0"


def test_hints_are_told_without_triton() -> None:
    assert BUILTIN["triton"] == "tilec.frontends.triton.frontend:TritonFrontend"
    program = "import sys, tilec.frontends.triton.frontend as t; t.TritonFrontend(None); sys.exit('triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=120).returncode == 0


HELPERS = """
def put(at, value, again=None):
    tl.store(at, value)
    if again is not None:
        deeper.into(again)
def into(there):
    tl.atomic_xchg(there, 1)
def places(first, second, offset):
    if offset:
        return first + offset, second
    return first, second + 1
def loaded(at):
    return tl.load(at) + at.dtype.element_ty(1)
def maybe(desc_or_ptr, shape, strides, block):
    if isinstance(desc_or_ptr, tl.tensor_descriptor):
        return desc_or_ptr
    else:
        return tl.make_tensor_descriptor(desc_or_ptr, shape, strides, block)
def both(first, second):
    first = maybe(first, [8], [1], [8])
    return maybe(second, [8], [1], [8]), first
def endless(at):
    endless(at)
    endless(at + 1)
    tl.store(at, 0)
"""


def analyzed(body: str) -> tuple[frozenset[str], frozenset[str]]:
    nodes = {
        n.name: n
        for n in ast.parse(f"{HELPERS}\ndef k(x, y, idx, n, B):\n{body}").body
        if isinstance(n, ast.FunctionDef)
    }
    names: dict[str, object] = {**nodes, "deeper": SimpleNamespace(into=nodes["into"])}

    def find(node: object) -> Function | None:
        return Function(node, names) if isinstance(node, ast.FunctionDef) else None

    return accesses(nodes["k"], find)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("    tl.store(y + idx, tl.load(x + n))", {"x", "y"}),
        ("    d = tl.make_tensor_descriptor(x, [n])\n    put(y, d.load([n]))", {"x", "y"}),
        ("    tl.store(y, loaded(x))\n    helper(idx)", {"x", "y"}),
    ],
)
def test_parameters_that_are_addresses(body: str, names: set[str]) -> None:
    assert analyzed(body)[0] == names


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("    tl.store(y + tl.arange(0, B), tl.load(x))", {"y"}),
        ("    p = y + n\n    p += B\n    tl.store(p, 0)", {"y"}),
        ("    o = tl.load(idx)\n    tl.store(y + o, tl.load(x + o))", {"y"}),
        ("    for i in range(n):\n        tl.atomic_add(p, 1)\n        p = x + i", {"x"}),
        ("    tl.store(value=1, pointer=y)", {"y"}),
        ("    tl.store(x.to(tl.int64) if n else y, 1)", {"x", "y"}),
        (
            "    b = tl.make_block_ptr(base=y, shape=(n,))\n    b = tl.advance(b, (1,))\n    tl.store(b, 1)",
            {"y"},
        ),
        ("    tl.load(x)", set()),
        ("    helper(y)", set()),
        ("    p, q = x + n, y + n\n    tl.store(q, tl.load(p))", {"y"}),
        ("    p, q = (y, x) if n else (x, y)\n    tl.store(q, 1)", {"x", "y"}),
        ("    if (p := y + n):\n        tl.store(p, 1)", {"y"}),
        ("    tl.store(tl.multiple_of(tl.max_contiguous(y + n, B), B), 1)", {"y"}),
        ("    tl.store(tl.cast(y, tl.int64) + n, 1)", {"y"}),
        ("    put(y + n, tl.load(x))", {"y"}),
        ("    put(value=tl.load(x), at=y)", {"y"}),
        ("    put(y, 1, again=idx)", {"y", "idx"}),
        ("    deeper.into(y)", {"y"}),
        ("    p, q = places(x, y, n)\n    tl.store(q, tl.load(p))", {"y"}),
        ("    tl.store(places(x, y, n)[1], 1)", {"y"}),
        ("    p = y + n\n    tl.store(p[:, None] + B, 1)", {"y"}),
        ("    tl.store(tl.where(n, x, y) + B, 1)", {"x", "y"}),
        ("    tl.store((y + n).reshape((B,)), 1)", {"y"}),
        ("    tl.store(tl.trans(y + n), 1)", {"y"}),
        ("    tl.store(y + loaded(idx), loaded(x))", {"y"}),
        ("    endless(y)", {"y"}),
        (
            "    d = tl.make_tensor_descriptor(y, shape=[n], strides=[1], block_shape=[B])\n    d.store([0], tl.load(x))",
            {"y"},
        ),
        (
            "    e, d = tl.make_tensor_descriptor(base=x, shape=[n]), tl.make_tensor_descriptor(y)\n    d.atomic_add([0], e.load([0]))",
            {"y"},
        ),
        ("    y.store([n, 0], x.load([n, 0]))", {"y"}),
        ("    y.scatter(idx, n, tl.load(x))", {"y"}),
        (
            "    y = tl.make_tensor_descriptor(y, [n], [1], [B])\n    y.store([0], x.load([0]))",
            {"y"},
        ),
        (
            "    x = tl.make_tensor_descriptor(x, [n], [1], [B])\n    tl.store(y + n, x.load([0]))",
            {"y"},
        ),
        (
            "    x, y = maybe(x, [n], [1], [B]), maybe(y, [n], [1], [B])\n    y.store([0], x.load([0]))",
            {"y"},
        ),
        ("    x, y = both(y, x)\n    y.store([0], x.load([0]))", {"y"}),
        ("    p, q = both(y, x)\n    q.store([0], p.load([0]))", {"y"}),
        (
            "    y = make_tensor_descriptor(y, [n], [1], [B])\n    store_tensor_descriptor(desc=y, offsets=[0], value=n)",
            {"y"},
        ),
        ("    d = make_tensor_descriptor(base=y, shape=[n])\n    d.store([0], n)", {"y"}),
    ],
)
def test_what_a_body_writes(body: str, names: set[str]) -> None:
    assert analyzed(body)[1] == names
