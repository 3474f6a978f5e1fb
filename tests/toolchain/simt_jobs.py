"""Small SIMT kernels, and jobs for them, shared by the tests of the simt frontend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.toolchain import projects
from tests.toolchain.projects import scalar, tensor
from tilec.frontends.simt.frontend import SimtFrontend
from tilec.model.job import Job, KernelSpec, Source, Variant
from tilec_runtime.model.arch import Target
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind

KERNELS = '''import numpy as np
from numba import cuda, float32, int32

from tilec import simt
from . import common

T = simt.dtype("T")
SPAN = simt.size("SPAN")
PAIR = np.dtype([("flag", "i1"), ("value", "f8"), ("count", "i2")], align=True)


@simt.kernel
def add(z: simt.Mut[T], x: simt.Ref[T], a: T):
    """z = a x + 1."""
    i = cuda.grid(1)
    if i < z.size:
        z[i] = common.scaled(x[i], a)


@simt.kernel
def cube(z: simt.Mut[float32, 3], x: simt.Ref[float32, 2], n: int):
    i, j, k = cuda.grid(3)
    if i < z.shape[0] and j < z.shape[1] and k < z.shape[2]:
        z[i, j, k] = x[j, k] * n


@simt.kernel
def pair(z: simt.Mut[float32], small: simt.Struct[PAIR], last: bool):
    z[0] = small.value + small.count + small.flag + last


@simt.kernel
def tiled(z: simt.Mut[T], N: simt.Const[int] = 8):
    block = cuda.shared.array((N, SPAN), T)
    block[cuda.threadIdx.x % N, cuda.threadIdx.y % SPAN] = z[0]
    cuda.syncthreads()
    z[1] = block[0, 0]


@simt.kernel
def checked(z: simt.Mut[float32], i: int):
    if i > 100:
        raise ValueError("too large")
    z[i] = 1.0


@cuda.jit
def plain(z, x, n):
    """Plain numba."""
    i = cuda.grid(1)
    if i < n:
        z[i] = x[i]


@simt.kernel(fastmath=True, launch_bounds=128, max_registers=24)
def optioned(z: simt.Mut[float32], x: simt.Ref[float32]):
    i = cuda.grid(1)
    if i < z.size:
        z[i] = z[i] / x[i]


@cuda.jit
def meeting(z):
    cuda.cg.this_grid().sync()
    z[cuda.grid(1)] = 1


@simt.kernel
def pairs(z: simt.Mut[float32, 2], held: simt.Mut[PAIR, 2]):
    i, j = cuda.grid(2)
    if i < held.shape[0] and j < held.shape[1]:
        held[i, j].count += 1
        z[i, j] = held[i, j].value
'''
COMMON = """from numba import cuda


@cuda.jit(device=True)
def scaled(value, factor):
    return value * factor + 1
"""
FILES = {"k/__init__.py": "", "k/a.py": KERNELS, "k/common.py": COMMON}


def frontend() -> SimtFrontend:
    return SimtFrontend(projects.SEARCH)


def write(root: Path, files: dict[str, str] | None = None) -> Path:
    return projects.write(root, FILES if files is None else files)


Z = tensor("z", out=True)
ADD = (tensor("z", "T", out=True), tensor("x", "T"), scalar("a", "T"))
PARAMS: dict[str, tuple[Param, ...]] = {
    "add": ADD,
    "cube": (tensor("z", rank=3, out=True), tensor("x", rank=2), scalar("n", "i32")),
    "pair": (Z, Param(name="small", kind=ParamKind.STRUCT, size=24), scalar("last", "bool")),
    "pairs": (tensor("z", rank=2, out=True), tensor("held", "u8", rank=3, out=True)),
    "tiled": (tensor("z", "T", out=True),),
    "checked": (Z, scalar("i", "i32")),
    "plain": (Z, tensor("x"), scalar("n", "i64")),
    "optioned": (Z, tensor("x")),
    "meeting": (Z,),
}


def job(
    root: Path,
    kernel: str = "add",
    target: str = "sm_90",
    *,
    params: tuple[Param, ...] | None = None,
    abi: tuple[AbiSlot, ...] = (),
    axes: dict[str, AxisValue] | None = None,
    path: str = "k/a.py",
    **spec: Any,
) -> Job:
    source = Source(root=str(root), path=path)
    decl = next(d for d in frontend().declare(source) if d.name == kernel)
    chosen = PARAMS[kernel] if params is None else params
    axes = {"T": "f32", "SPAN": 4} if axes is None else axes
    return Job(
        spec=KernelSpec(
            name=kernel,
            language="simt",
            source=source,
            decl=decl,
            symbol=kernel,
            params=chosen,
            abi=abi,
            **spec,
        ),
        variant=Variant(kernel=kernel, id=kernel, axes=tuple(axes.items())),
        target=Target.parse(target),
    )
