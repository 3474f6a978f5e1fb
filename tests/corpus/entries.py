"""What an entry of the corpus is, and the values that its inputs are made of."""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np

from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors.host import numpy_dtype

Array = np.ndarray[Any, np.dtype[Any]]

BLOCKS = 4
SHAPES: tuple[tuple[int, ...], ...] = ((256,), (8, 32), (4, 2, 16))
FLOATS = ("f16", "bf16", "f32", "f64")
SMALL_FLOATS = ("f8e4m3", "f8e5m2")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = (*SIGNED, *UNSIGNED)
NUMBERS = (*FLOATS, *INTEGERS)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Arg:
    """A tensor parameter. `shape` is that of one block's tile; all blocks' tiles lie one after
    another along the first dimension.

    Attributes:
        domain: of its values: `any`, or what a function takes (`positive`, `unit`, `small`,
            `shift`, `index`, `nonzero`, `plain`).
        zero: an output that the kernel also reads starts with zeros; others are poisoned.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    out: bool = False
    domain: str = "any"
    zero: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One kernel of the corpus.

    Attributes:
        name: of the kernel: operation, dtypes, shape.
        operation: what it is about; the tolerance table goes by it.
        args: tensor parameters, outputs first.
        body: lines of the kernel.
        ordered: the result does not depend on an order that the operation leaves open (float sums
            do).
    """

    name: str
    operation: str
    args: tuple[Arg, ...]
    body: tuple[str, ...]
    ordered: bool = True


def inputs_of(entry: Entry) -> dict[str, Array]:
    """Arrays for every parameter, the same in every run."""
    made = {}
    for place, arg in enumerate(entry.args):
        shape = (arg.shape[0] * BLOCKS, *arg.shape[1:])
        dtype = numpy_dtype(arg.dtype)
        if arg.out:
            made[arg.name] = (
                np.zeros(shape, dtype)
                if arg.zero
                else np.full(int(np.prod(shape)) * dtype.itemsize, 0xA5, np.uint8)
                .view(dtype)
                .reshape(shape)
            )
            if arg.dtype == "bool" and not arg.zero:
                made[arg.name] = np.ones(shape, np.bool_)
        else:
            made[arg.name] = values(
                arg.dtype, arg.domain, shape, seed=sum(map(ord, entry.name)) * 16 + place
            )
    return made


def values(dtype: str, domain: str, shape: tuple[int, ...], seed: int) -> Array:
    """Values of a dtype: the awkward ones of its domain first, then random ones over its whole
    range.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    count = int(np.prod(shape))
    kind = DTYPES[dtype].kind
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    flat = (
        _integers(dtype, domain, count, rng)
        if kind in ("int", "uint")
        else _floats(dtype, domain, count, rng)
    )
    return np.ascontiguousarray(rng.permutation(flat).reshape(shape))


def _integers(dtype: str, domain: str, count: int, rng: np.random.Generator) -> Array:
    info = np.iinfo(
        dtype.replace("i", "int").replace("u", "uint")
        if not dtype.startswith("u")
        else dtype.replace("u", "uint")
    )
    limits = {
        "shift": (0, info.bits - 1),
        "index": (0, count - 1),
        "small": (max(info.min, -8), 8),
        "positive": (1, info.max),
        "plain": (max(info.min, -100), 100),
    }
    low, high = limits.get(domain, (info.min, info.max))
    edges = [
        n
        for n in (info.min, info.min + 1, -2, -1, 0, 1, 2, 7, info.max - 1, info.max)
        if low <= n <= high
    ]
    wide = rng.integers(low, high, count, info.dtype, endpoint=True)
    near = rng.integers(max(low, -20), min(high, 20), count, np.int64, endpoint=True).astype(
        info.dtype
    )
    found = np.where(rng.random(count) < 0.5, wide, near)
    found[: len(edges)] = np.array(edges, info.dtype)[:count]
    if domain == "nonzero":
        found[found == 0] = 3
    return found


def _floats(dtype: str, domain: str, count: int, rng: np.random.Generator) -> Array:
    kind = numpy_dtype(dtype)
    info = ml_dtypes.finfo(kind)
    normal = rng.standard_normal(count)
    if domain in ("plain", "small"):
        return (normal * (0.5 if domain == "small" else 4.0)).astype(kind)
    # A power of two is exact: NumPy's other powers differ in the last bit between processors.
    span = {"f64": 996, "f32": 119, "bf16": 119, "f16": 13}.get(dtype, 6)
    wide = np.ldexp(normal, rng.integers(-span, span, count, np.int32, endpoint=True))
    found = np.where(rng.random(count) < 0.5, normal * 4, wide)
    tiny, small, big = float(info.smallest_subnormal), float(info.smallest_normal), float(info.max)
    edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        -2.5,
        3.5,
        tiny,
        -tiny,
        small,
        -small,
        big,
        -big,
        small / 2,
        np.inf,
        -np.inf,
        np.nan,
    ]
    found[: len(edges)] = np.array(edges)[:count]
    if domain == "positive":
        found = np.abs(found)
    if domain == "unit":
        found = np.clip(np.nan_to_num(found, nan=0.25), -1, 1)
    with np.errstate(all="ignore"):
        return found.astype(kind)
