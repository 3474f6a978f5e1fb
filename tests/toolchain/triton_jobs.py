"""Small Triton kernels, and jobs for them, shared by the tests of the triton frontend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.toolchain import projects
from tests.toolchain.projects import scalar, tensor
from tilec.frontends.triton.frontend import TritonFrontend
from tilec.model.job import Job, KernelSpec, Source, Variant
from tilec_runtime.model.arch import Target
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.signature import AbiSlot, Assumption, Param

KERNELS = '''import triton
import triton.language as tl
from . import common


@triton.autotune(configs=[triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    """z = x + y."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = common.load2(x_ptr, y_ptr, o, o < n)
    tl.store(z_ptr + o, x + y * common.SCALE, mask=o < n)


@triton.jit
def dot(a, b, c, K, lda, ldk, scale, flag, BM: tl.constexpr, BK: tl.constexpr):
    om, ok = tl.arange(0, BM), tl.arange(0, BK)
    acc = tl.zeros((BM, BM), dtype=tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + om[:, None] * lda + (ok[None, :] + k) * ldk)
        y = tl.load(b + (ok[:, None] + k) * BM + om[None, :])
        acc = tl.dot(x, y, acc)
    if flag:
        acc = acc * scale
    tl.store(c + om[:, None] * BM + om[None, :], acc)


@triton.jit
def cast(x: "*fp32", y, n: tl.int32, D: tl.constexpr, BLOCK: tl.constexpr = 128):
    o = tl.arange(0, BLOCK)
    tl.store(y + o, tl.load(x + o, mask=o < n).to(D), mask=o < n)


@triton.jit
def described(x, y, n, BLOCK: tl.constexpr):
    desc = tl.make_tensor_descriptor(x, shape=[n, BLOCK], strides=[BLOCK, 1], block_shape=[8, BLOCK])
    o = tl.arange(0, 8)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    tl.store(y + o, desc.load([0, 0]))
'''
COMMON = """import triton
import triton.language as tl

SCALE = tl.constexpr(2.0)


@triton.jit
def load2(x, y, o, m):
    return tl.load(x + o, mask=m), tl.load(y + o, mask=m)
"""
FILES = {"k/__init__.py": "", "k/a.py": KERNELS, "k/common.py": COMMON}
ALIGNED = tuple(Assumption(param=p, shape=(16,), align=16) for p in "xyz")


def frontend() -> TritonFrontend:
    return TritonFrontend(projects.SEARCH)


def write(root: Path, files: dict[str, str] | None = None) -> Path:
    return projects.write(root, FILES if files is None else files)


def ptr(expr: str) -> AbiSlot:
    return AbiSlot(type="ptr", expr=expr, size=8, align=8)


def slot(type_: str, expr: str, size: int) -> AbiSlot:
    return AbiSlot(type=type_, expr=expr, size=size, align=size)


ADD_PARAMS = tuple(tensor(n, "T") for n in "xyz")
ADD_ABI = (ptr("x.ptr"), ptr("y.ptr"), ptr("z.ptr"), slot("i32", "x.size", 4))


def job(
    root: Path,
    kernel: str = "add",
    target: str = "sm_90",
    *,
    params: tuple[Param, ...] = ADD_PARAMS,
    abi: tuple[AbiSlot, ...] = ADD_ABI,
    axes: dict[str, AxisValue] | None = None,
    assume: tuple[Assumption, ...] = (),
    hints: dict[str, int] | None = None,
    path: str = "k/a.py",
    **spec: Any,
) -> Job:
    source = Source(root=str(root), path=path)
    decl = next(d for d in frontend().declare(source) if d.name == kernel)
    axes = {"T": "f32", "BLOCK": 1024} if axes is None else axes
    return Job(
        spec=KernelSpec(
            name=kernel,
            language="triton",
            source=source,
            decl=decl,
            symbol=kernel,
            params=params,
            abi=abi,
            **spec,
        ),
        variant=Variant(kernel=kernel, id=kernel, axes=tuple(axes.items()), assume=assume),
        target=Target.parse(target),
        hints=tuple(sorted((hints or {}).items())),
    )


FAST = (
    Assumption(param="a", shape=(16, 16), stride=(16, 1), align=16),
    Assumption(param="b", align=16),
)


def dot_job(
    root: Path,
    target: str = "sm_90",
    *,
    stride: tuple[int | None, ...] | None = (None, 1),
    **changes: Any,
) -> Job:
    params = (
        tensor("a", "f16", 2, stride=stride),
        tensor("b", "f16", 2),
        tensor("c", "f32", 2),
        scalar("s", "f32"),
        scalar("f", "bool"),
    )
    abi = (
        ptr("a.ptr"),
        ptr("b.ptr"),
        ptr("c.ptr"),
        slot("i32", "a.shape[1]", 4),
        slot("i64", "a.stride[0]", 8),
        slot("i32", "a.stride[1]", 4),
        slot("f32", "s", 4),
        slot("bool", "f", 1),
    )
    return job(root, "dot", target, params=params, abi=abi, axes={"BM": 64, "BK": 32}, **changes)
