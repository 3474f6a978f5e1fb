"""Tile kernels whose blocks part, leave early or wait for each other, and what compiles and
launches them on the CPU.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cuda.tile as ct
import cuda.tile.compilation as ctc
import numpy as np

from tilec_runtime.cpu.tileir.execute import Options, execute, prepare
from tilec_runtime.cpu.tileir.ir import Module
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.read import read_module
from tilec_runtime.cpu.tileir.trace import Stepper, step

DTYPES = {"float32": ct.float32, "int32": ct.int32}


@ct.kernel
def locked(lock, total):
    """A spin lock around a read, an addition and a write that are not atomic."""
    while ct.atomic_cas(lock, 0, 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) == 1:
        pass
    old = ct.load(total, (0,), (1,))
    ct.store(total, (0,), old + 1)
    ct.atomic_xchg(lock, 0, 0, memory_order=ct.MemoryOrder.RELEASE)


@ct.kernel
def chained(x, flags, sums):
    """A running sum over blocks: each waits for the one before it."""
    i = ct.bid(0)
    own = ct.sum(ct.load(x, (i,), (16,)))
    before = 0
    if i > 0:
        while ct.atomic_add(flags, i - 1, 0, memory_order=ct.MemoryOrder.ACQUIRE) == 0:
            pass
        before = ct.load(sums, (i - 1,), (1,)).item()
    ct.store(sums, (i,), ct.full((1,), before + own, ct.int32))
    ct.atomic_xchg(flags, i, 1, memory_order=ct.MemoryOrder.RELEASE)


@ct.kernel
def stuck(flag):
    while ct.atomic_add(flag, 0, 0) == 0:
        pass


@ct.kernel
def talks(x):
    i = ct.bid(0)
    ct.printf("block %d: %f\n", i, ct.load(x, (i,), (2,)))
    ct.assert_(ct.load(x, (i,), (2,)) < 5.0, "too large")  # noqa: PT009 - cuda.tile calls it so


def compiled(kernel: Any, arguments: Sequence[Any]) -> Module:
    """The kernel's Tile IR for arguments of these types: arrays, and constants of kernels as plain
    ints.
    """
    constraints = [
        ctc.ArrayConstraint(
            DTYPES[a.dtype.name],
            a.ndim,
            index_dtype=ct.int32,
            stride_lower_bound_incl=0,
            alias_groups=(),
            may_alias_internally=False,
        )
        if isinstance(a, np.ndarray)
        else ctc.ConstantConstraint(a)
        for a in arguments
    ]
    output = io.BytesIO()
    signature = ctc.KernelSignature(
        constraints, ctc.CallingConvention.cutile_python_v2(), symbol="kernel"
    )
    ctc.export_kernel(
        kernel,
        [signature],
        output,
        gpu_code=None,
        output_format="tileir_bytecode",
        bytecode_version="13.3",
    )
    return read_module(output.getvalue())


def run(function: Any, blocks: int, *arguments: Any, **options: Any) -> None:
    """Compile a kernel and launch it on a row of blocks."""
    flat, memory = lent(arguments)
    execute(
        prepare(compiled(function, arguments)), flat, (blocks, 1, 1), memory, Options(**options)
    )


def stepped(function: Any, blocks: int, block: tuple[int, int, int], *arguments: Any) -> Stepper:
    """Compile a kernel and step through one of a row of blocks."""
    flat, memory = lent(arguments)
    return step(compiled(function, arguments), flat, (blocks, 1, 1), memory, block)


def lent(arguments: Sequence[Any]) -> tuple[list[int], Memory]:
    """What the entry point of a kernel takes for these arguments, and the memory of the arrays
    among them.
    """
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    flat: list[int] = []
    for array in arrays:
        flat += [
            array.ctypes.data,
            *array.shape,
            *(stride // array.itemsize for stride in array.strides),
        ]
    return flat, Memory(
        MemoryRegion.of(f"array{place}", array) for place, array in enumerate(arrays)
    )


def line_of(text: str) -> int:
    """The line of this file that holds a text first."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return 1 + next(place for place, line in enumerate(lines) if text in line)
