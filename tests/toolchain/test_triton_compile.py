"""Triton kernels to images with no GPU: parameters, facts, hints, launch facts, targets."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.toolchain.triton_jobs import (
    ALIGNED,
    FAST,
    dot_job,
    frontend,
    job,
    scalar,
    slot,
    tensor,
    write,
)
from tilec.frontends.triton import api
from tilec.model.argument import joined_abi
from tilec.model.job import Source
from tilec_runtime.bundle.cubin import read_cubin
from tilec_runtime.model.arch import Target
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.signature import AbiSlot

pytestmark = pytest.mark.toolchain
pytest.importorskip("triton")

HIDDEN = [("u64", "0"), ("u64", "0")]
MATRICES = (*(tensor(name, "f16", 2, align=16) for name in "yx"), scalar("n", "i32"))
BOXES = tuple(
    AbiSlot(type="descriptor", expr=f"descriptor({name}, 32, B)", size=128, align=64)
    for name in "yx"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("triton"))


def test_declarations(root: Path) -> None:
    found = {d.name: d for d in frontend().declare(Source(root=str(root), path="k/a.py"))}
    assert list(found) == ["add", "dot", "cast", "described"]
    add = found["add"]
    assert (add.location.file, add.location.line, add.location.column, add.doc) == (
        "k/a.py",
        8,
        5,
        "z = x + y.",
    )
    rows = [(p.name, p.kind, p.type, p.dtype, p.out) for p in add.params]
    assert rows[2:] == [
        ("z_ptr", "tensor", "", "", True),
        ("n", "tensor", "", "", None),
        ("BLOCK", "constant", "tl.constexpr", "", None),
    ]
    cast = {p.name: (p.kind, p.dtype, p.default) for p in found["cast"].params}
    assert cast["x"] == ("tensor", "f32", None)
    assert cast["n"] == ("scalar", "i32", None)
    assert cast["BLOCK"] == ("constant", "", 128)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120"])
def test_cubins(root: Path, target: str) -> None:
    image = frontend().compile(job(root, target=target))
    cubin = read_cubin(image.data)
    assert cubin.cc == Target.parse(target).cc
    entry = cubin.kernel(image.info.symbol)
    assert [(p.offset, p.size) for p in entry.params] == [
        (0, 8),
        (8, 8),
        (16, 8),
        (24, 4),
        (32, 8),
        (40, 8),
    ]
    assert [(s.type, s.expr) for s in image.abi[4:]] == HIDDEN
    assert (image.info.block, image.info.dynamic_shared, image.info.cluster) == ((128, 1, 1), 0, ())
    assert image.info.required_block == (128, 1, 1)
    assert image.info.exact == (target in ("sm_90", "sm_100", "sm_120"))
    assert image.info.resources.registers
    assert (image.info.resources.spill_stores, image.info.resources.spill_loads) == (0, 0)


def test_ptx_is_as_old_as_the_oldest_driver_reads(root: Path) -> None:
    new = frontend().compile(job(root, target="compute_80"))
    assert new.info.ptx_isa == (9, 4)
    old = frontend().compile(job(root, target="compute_80", max_isa=(8, 0)))
    assert (old.info.ptx_isa, old.info.cuda) == ((8, 0), (12, 0))
    assert b".version 8.0" in old.data
    assert b".target sm_80" in old.data
    assert b".file" not in old.data


def test_only_declared_facts_are_used(root: Path) -> None:
    def vectors(**changes: Any) -> int:
        data = frontend().compile(job(root, target="compute_80", **changes)).data
        return data.count(b"ld.global.v4.b32") + data.count(b"st.global.v4.b32")

    assert vectors() == 0
    assert vectors(assume=ALIGNED) == 6  # of x, y and z, two each
    assert vectors(assume=ALIGNED[:1]) == 2
    assert vectors(assume=tuple(dataclasses.replace(a, align=8) for a in ALIGNED)) == 0
    assert vectors(assume=tuple(dataclasses.replace(a, shape=(8,)) for a in ALIGNED)) == 0


def test_a_stride_that_is_one_is_no_argument(root: Path) -> None:
    one = frontend().compile(dot_job(root))
    exprs = [s.expr for s in one.abi]
    assert exprs == ["a.ptr", "b.ptr", "c.ptr", "a.shape[1]", "a.stride[0]", "s", "f", "0", "0"]
    free = frontend().compile(dot_job(root, stride=(None, None)))
    assert [s.expr for s in free.abi][5] == "a.stride[1]"
    assert one.data != free.data


def test_what_a_launch_needs_is_in_the_image(root: Path) -> None:
    plain = (
        frontend()
        .compile(
            dot_job(root, target="sm_80", assume=FAST, hints={"num_warps": 8, "num_stages": 4})
        )
        .info
    )
    assert plain.block == (256, 1, 1)
    assert plain.dynamic_shared >= 3 * 2 * 64 * 32 * 2
    fewer = (
        frontend()
        .compile(
            dot_job(root, target="sm_80", assume=FAST, hints={"num_warps": 8, "num_stages": 2})
        )
        .info
    )
    assert fewer.dynamic_shared < plain.dynamic_shared
    cluster = frontend().compile(dot_job(root, hints={"num_ctas": 2}))
    assert cluster.info.cluster == read_cubin(cluster.data).kernel("dot").cluster == (2, 1, 1)
    bounded = frontend().compile(dot_job(root, target="sm_80", hints={"maxnreg": 64})).info
    assert bounded.resources.registers is not None
    assert bounded.resources.registers <= 64


def test_fusion_can_be_turned_off(root: Path) -> None:
    fused = frontend().compile(job(root, target="compute_80")).data
    plain = frontend().compile(job(root, target="compute_80", hints={"fp_fusion": 0})).data
    assert b"fma.rn.f32" in fused
    assert b"fma.rn.f32" not in plain


@pytest.mark.parametrize("dtype", [d for d in api.NAMES if not d.startswith("f8")])
def test_every_dtype_as_tensor_and_scalar(tmp_path: Path, dtype: str) -> None:
    text = (
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef fill(y, value, n, B: tl.constexpr):\n"
        "    o = tl.arange(0, B)\n    tl.store(y + o, value, mask=o < n)\n"
    )
    size = DTYPES[dtype].bytes
    params = (tensor("y", dtype), scalar("value", dtype), scalar("n", "i32"))
    made = frontend().compile(
        job(write(tmp_path, {"k/a.py": text}), "fill", params=params, abi=(), axes={"B": 64})
    )
    assert [(s.type, s.expr, s.size) for s in made.abi[:3]] == [
        ("ptr", "y.ptr", 8),
        (dtype, "value", size),
        ("i32", "n", 4),
    ]
    assert [p.size for p in read_cubin(made.data).kernel("fill").params] == [8, size, 4, 8, 8]


@pytest.mark.parametrize(
    ("dtype", "target"),
    [("f8e4m3", "sm_90"), ("f8e5m2", "sm_80"), ("bf16", "sm_80"), ("f16", "compute_80")],
)
def test_dtypes_as_constants(root: Path, dtype: str, target: str) -> None:
    params = (tensor("x"), tensor("y", "D2"), scalar("n", "i32"))
    axes: dict[str, AxisValue] = {"D": dtype, "D2": dtype}
    assert (
        frontend().compile(job(root, "cast", target, params=params, abi=(), axes=axes)).info.symbol
        == "cast"
    )


def test_parameters_can_be_axes(root: Path) -> None:
    params = (tensor("x_ptr"), tensor("y_ptr"), tensor("z_ptr"))
    made = frontend().compile(job(root, params=params, abi=(), axes={"n": 100, "BLOCK": 128}))
    assert [s.expr for s in made.abi] == ["x_ptr.ptr", "y_ptr.ptr", "z_ptr.ptr", "0", "0"]


def test_lines_are_kept_where_they_are_asked_for(root: Path) -> None:
    ptx = frontend().compile(job(root, target="compute_80", lineinfo=True)).data.decode()
    assert ".loc" in ptx
    assert str(root) not in ptx
    assert ".loc" not in frontend().compile(job(root, target="compute_80")).data.decode()


DESCRIPTORS = """import triton
import triton.language as tl


@triton.jit
def move(y_desc, x_desc, n, B: tl.constexpr):
    y_desc.store([n, 0], x_desc.load([0, n]))
"""


def _extents_and_strides(name: str) -> list[tuple[str, str]]:
    return [
        *(("i32", f"{name}.shape[{k}]") for k in range(2)),
        *(("i64", f"{name}.stride[{k}]") for k in range(2)),
    ]


@pytest.mark.parametrize("target", ["sm_90", "sm_100", "compute_90a"])
def test_a_descriptor_made_on_the_host_is_a_map_with_extents_and_strides(
    tmp_path: Path, target: str
) -> None:
    write(tmp_path, {"k/a.py": DESCRIPTORS})
    (decl,) = frontend().declare(Source(root=str(tmp_path), path="k/a.py"))
    assert [(param.name, param.kind, param.out) for param in decl.params[:2]] == [
        ("y_desc", "tensor", True),
        ("x_desc", "tensor", None),
    ]
    made = frontend().compile(
        job(
            tmp_path,
            "move",
            target,
            params=MATRICES,
            abi=(*BOXES, slot("i32", "n", 4)),
            axes={"B": 64},
        )
    )
    maps = [("tensormap:6:3:32x64", f"{name}.ptr") for name in "yx"]
    described = [
        part
        for at, name in zip(maps, "yx", strict=True)
        for part in (at, *_extents_and_strides(name))
    ]
    assert [(s.type, s.expr) for s in made.abi] == [*described, ("i32", "n"), *HIDDEN]


REBOUND = """import triton
import triton.language as tl


@triton.jit
def described(desc_or_ptr, n, B: tl.constexpr):
    if isinstance(desc_or_ptr, tl.tensor_descriptor):
        return desc_or_ptr
    else:
        return tl.make_tensor_descriptor(desc_or_ptr, shape=[n, B], strides=[B, 1], block_shape=[32, B])


@triton.jit
def direct(y, x, n, B: tl.constexpr):
    x = tl.make_tensor_descriptor(x, shape=[n, B], strides=[B, 1], block_shape=[32, B])
    y = tl.make_tensor_descriptor(base=y, shape=[n, B], strides=[B, 1], block_shape=[32, B])
    y.store([0, 0], x.load([0, 0]))


@triton.jit
def helped(y, x, n, B: tl.constexpr):
    x, y = described(x, n, B), described(y, n, B)
    y.store([0, 0], x.load([0, 0]))
"""


@pytest.mark.parametrize("kernel", ["direct", "helped"])
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_an_address_that_becomes_a_descriptor_under_its_own_name(
    tmp_path: Path, kernel: str, target: str
) -> None:
    write(tmp_path, {"k/a.py": REBOUND})
    decls = {
        decl.name: decl for decl in frontend().declare(Source(root=str(tmp_path), path="k/a.py"))
    }
    assert [(param.name, param.out) for param in decls[kernel].params[:2]] == [
        ("y", True),
        ("x", None),
    ]
    made = frontend().compile(
        job(tmp_path, kernel, target, params=MATRICES, abi=(), axes={"B": 64})
    )
    assert [s.expr for s in made.abi] == ["y.ptr", "x.ptr", "n", "0", "0"]
    assert made.abi[3].type == ("u64" if target == "sm_80" else "scratch:256")


def test_a_parameter_that_may_be_a_descriptor_takes_one(tmp_path: Path) -> None:
    write(tmp_path, {"k/a.py": REBOUND})
    made = frontend().compile(
        job(tmp_path, "helped", params=MATRICES, abi=(*BOXES, slot("i32", "n", 4)), axes={"B": 64})
    )
    assert [s.type.partition(":")[0] for s in made.abi if s.expr.endswith(".ptr")] == [
        "tensormap",
        "tensormap",
    ]


def test_scratch_memory_is_an_argument_where_a_target_needs_it(root: Path) -> None:
    params = (tensor("x"), tensor("y"), scalar("n", "i32"))
    abis = {
        target: frontend()
        .compile(job(root, "described", target, params=params, abi=(), axes={"BLOCK": 64}))
        .abi
        for target in ("sm_80", "sm_90")
    }
    assert [(s.type, s.expr) for s in abis["sm_80"][-2:]] == HIDDEN
    assert [(s.type, s.expr) for s in abis["sm_90"][-2:]] == [("scratch:128", "0"), ("u64", "0")]
    assert joined_abi(abis["sm_80"], abis["sm_90"]) == abis["sm_90"]
