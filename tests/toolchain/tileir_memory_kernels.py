"""Tile kernels that touch memory in every way that cuda.tile has, and what launches them on the
CPU.
"""

# mypy: allow-untyped-defs
# A kernel's parameters are arrays of its own language.

from __future__ import annotations

import io
from typing import Any

import cuda.tile as ct
import cuda.tile.compilation as ctc
import numpy as np

from tilec_runtime.cpu.tileir.execute import Options, execute, prepare
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.read import read_module

DTYPES = {
    name: getattr(ct, name)
    for name in (
        "float16",
        "float32",
        "float64",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint32",
    )
}
DTYPES |= {"bool": ct.bool_, "bfloat16": ct.bfloat16, "float8_e4m3fn": ct.float8_e4m3fn}


@ct.kernel
def copy(x, y):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, (i, j), ct.load(x, (i, j), (4, 8), padding_mode=ct.PaddingMode.ZERO))


@ct.kernel
def padded(x, zero, negative, nan, high, low):
    i = ct.bid(0)
    ct.store(zero, (i,), ct.load(x, (i,), (8,), padding_mode=ct.PaddingMode.ZERO))
    ct.store(negative, (i,), ct.load(x, (i,), (8,), padding_mode=ct.PaddingMode.NEG_ZERO))
    ct.store(nan, (i,), ct.load(x, (i,), (8,), padding_mode=ct.PaddingMode.NAN))
    ct.store(high, (i,), ct.load(x, (i,), (8,), padding_mode=ct.PaddingMode.POS_INF))
    ct.store(low, (i,), ct.load(x, (i,), (8,), padding_mode=ct.PaddingMode.NEG_INF))


@ct.kernel
def transposed(x, y):
    """Each tile of x, read along its second dimension first, becomes a tile of y."""
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, (i, j), ct.load(x, (i, j), (4, 8), order=(1, 0), padding_mode=ct.PaddingMode.ZERO))


@ct.kernel
def windows(x, y):
    """Sums of windows of 8 that start 3 apart."""
    i = ct.bid(0)
    view = x.tiled_view((8,), padding_mode=ct.PaddingMode.ZERO, traversal_steps=(3,))
    ct.store(y, (i,), ct.sum(view.load((i,)), keepdims=True))


@ct.kernel
def gathered(x, rows, y, column):
    i = ct.bid(0)
    which = ct.load(rows, (i,), (4,))
    tile = ct.load_advanced_indexing(
        x, (which, ct.Slice(column, 8)), padding_mode=ct.PaddingMode.ZERO
    )
    ct.store(y, (i, 0), tile)


@ct.kernel
def scattered(x, rows, y, column):
    i = ct.bid(0)
    which = ct.load(rows, (i,), (4,))
    ct.store_advanced_indexing(y, (which, ct.Slice(column, 8)), ct.load(x, (i, 0), (4, 8)))


@ct.kernel
def picked(x, index, y):
    """Through pointers: checked, so that what lies outside is left out."""
    i = ct.bid(0)
    where = ct.load(index, (i,), (16,))
    ct.scatter(y, where, ct.gather(x, where, padding_value=5))


@ct.kernel
def unchecked(x, index, y):
    i = ct.bid(0)
    where = ct.load(index, (i,), (16,))
    ct.store(y, (i,), ct.gather(x, where, check_bounds=False))


@ct.kernel
def promised(x, y):
    i = ct.bid(0)
    ct.store(y, (i,), ct.load(x, (i,), (16,), check_bounds=False), check_bounds=False)


@ct.kernel
def histogram(x, bins, before):
    i = ct.bid(0)
    old = ct.atomic_add(bins, ct.load(x, (i,), (64,)), 1)
    ct.store(before, (i,), old)


@ct.kernel
def totals(x, y):
    """Every block adds its tile to the same one."""
    i = ct.bid(0)
    y.tiled_view((8,)).atomic_store_add((0,), ct.load(x, (i,), (8,)))


@ct.kernel
def extremes(x, low, high):
    i = ct.bid(0)
    tile = ct.load(x, (i,), (16,))
    ct.atomic_min(low, 0, ct.min(tile))
    ct.atomic_max(high, 0, ct.max(tile))


@ct.kernel
def ragged(x, starts, y):
    """Each block copies a part of x of its own length."""
    i = ct.bid(0)
    first = ct.load(starts, (i,), (1,)).item()
    last = ct.load(starts, (i + 1,), (1,)).item()
    ct.store(
        y,
        (i, 0),
        ct.load(x.slice(0, first, last), (0,), (8,), padding_mode=ct.PaddingMode.NAN).reshape(
            (1, 8)
        ),
    )


@ct.kernel
def shapes(x, y):
    rows, columns = x.shape
    ct.store(y, (0,), ct.full((1,), rows, ct.int32))
    ct.store(y, (1,), ct.full((1,), columns, ct.int32))
    ct.store(y, (2,), ct.full((1,), ct.num_tiles(x, 0, (4, 8)), ct.int32))
    ct.store(y, (3,), ct.full((1,), ct.num_tiles(x, 1, (4, 8)), ct.int32))


def constraint(argument: Any) -> Any:
    if not isinstance(argument, np.ndarray):
        return ctc.ScalarConstraint(ct.int32)
    return ctc.ArrayConstraint(
        DTYPES[argument.dtype.name],
        argument.ndim,
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
    )


def run(
    function: Any, grid: tuple[int, ...], *arguments: Any, version: str = "13.4", **options: Any
) -> None:
    """Compile a kernel and launch it. Arguments are arrays and 32-bit integers."""
    output = io.BytesIO()
    constraints = [constraint(argument) for argument in arguments]
    signature = ctc.KernelSignature(
        constraints, ctc.CallingConvention.cutile_python_v2(), symbol="kernel"
    )
    ctc.export_kernel(
        function,
        [signature],
        output,
        gpu_code=None,
        output_format="tileir_bytecode",
        bytecode_version=version,
    )
    flat: list[int] = []
    regions = []
    for place, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray):
            flat += [
                argument.ctypes.data,
                *argument.shape,
                *(stride // argument.itemsize for stride in argument.strides),
            ]
            regions.append(MemoryRegion.of(f"array{place}", argument))
        else:
            flat.append(argument)
    execute(
        prepare(read_module(output.getvalue())),
        flat,
        (*grid, 1, 1)[:3],
        Memory(regions),
        Options(**options),
    )  # type: ignore[arg-type]
