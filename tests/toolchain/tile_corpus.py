"""Kernels of cuda.tile with helpers, loops, blocks and views, and what compiles them to Tile IR of
any version.
"""

from __future__ import annotations

import functools
from typing import Any

import cuda.tile as ct
import cuda.tile.compilation as ctc

from tilec.frontends.tile import api
from tilec_runtime.cpu.tileir.ir import Version

NEWEST: Version = (13, 4)
DTYPES = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i32": "int32",
    "u32": "uint32",
    "i64": "int64",
    "u8": "uint8",
    "i8": "int8",
    "e4m3": "float8_e4m3fn",
}


def helper(x):
    return ct.exp(inner(x))


def inner(x):
    return x * 2.0 + 1.0


@ct.kernel
def floats(x, y):
    i = ct.bid(0)
    a = ct.load(x, (i,), (16,))
    b = ct.load(y, (i,), (16,))
    c = ct.add(a, b, rounding_mode=ct.RoundingMode.RZ) + ct.sub(a, b, flush_to_zero=True)
    c = ct.mul(c, 3.0, rounding_mode=ct.RoundingMode.RM) / ct.truediv(
        a, b, rounding_mode=ct.RoundingMode.APPROX, flush_to_zero=True
    )
    c = c + ct.exp(a) + ct.exp2(b, flush_to_zero=True) + ct.log(a) + ct.log2(b)
    c = (
        c
        + ct.sqrt(a, rounding_mode=ct.RoundingMode.RP)
        + ct.rsqrt(b)
        + ct.sqrt(a, rounding_mode=ct.RoundingMode.APPROX)
    )
    c = c + ct.sin(a) * ct.cos(b) - ct.tan(a) + ct.sinh(a) + ct.cosh(b) + ct.tanh(a)
    c = (
        c
        + ct.floor(a)
        + ct.ceil(b)
        + ct.abs(a)
        - ct.negative(b)
        + ct.pow(a, b)
        + a % b
        + ct.mod(a, 2.0)
    )
    c = ct.maximum(c, a, propagate_nan=True) + ct.minimum(c, b, flush_to_zero=True) + a // b
    c = ct.where(
        ct.isnan(c) | (a > b) & (a >= 0.0), c, ct.where((a < b) | (a <= 1.0), a, helper(b))
    )
    ct.store(y, (i,), ct.where((a == b) | (a != 2.0), c, 0.0))


def keep_larger(a, b):
    return ct.where(a > b, a, b)


@ct.kernel
def reductions(x, y, z):
    a = ct.load(x, (0, 0), (8, 16))
    b = ct.sum(a, 1) + ct.prod(a, 1) + ct.max(a, 1) + ct.min(a, 1, propagate_nan=True)
    b = (
        b
        + ct.reduce(a, 1, keep_larger, float("-inf"))
        + ct.argmax(a, 1).astype(ct.float32)
        + ct.argmin(a, 1).astype(ct.float32)
    )
    ct.store(z, (0,), b + ct.sum(a) + ct.max(a.astype(ct.int32), 1).astype(ct.float32))
    c = ct.cumsum(a, 1) + ct.cumprod(a, 0, reverse=True) + ct.scan(a, 1, keep_larger, float("-inf"))
    ct.store(y, (0, 0), c)


@ct.kernel
def products(a, b, c, d, e):
    acc = ct.zeros((16, 16), ct.float32)
    for k in range(ct.num_tiles(a, 1, (16, 32))):
        acc = ct.mma(ct.load(a, (0, k), (16, 32)), ct.load(b, (k, 0), (32, 16)), acc)
    ct.store(
        c,
        (0, 0),
        acc + (ct.load(a, (0, 0), (16, 16)) @ ct.load(b, (0, 0), (16, 16))).astype(ct.float32),
    )
    whole = ct.mma(
        ct.load(d, (0, 0), (16, 32)), ct.load(d, (0, 0), (32, 16)), ct.zeros((16, 16), ct.int32)
    )
    ct.store(e, (0, 0), whole)


@ct.kernel
def views(x, y):
    step = x.tiled_view((2, 8), traversal_steps=(1, 4), padding_mode=ct.PaddingMode.NEG_INF)
    total = ct.zeros((2, 8), ct.float32)
    for i in range(step.num_tiles(0)):
        total = total + step.load((i, 0))
    out = y.tiled_view((2, 8))
    out.store((ct.bid(0), 0), total)
    rows = ct.load_advanced_indexing(
        x, (ct.arange(4, dtype=ct.int32), ct.Slice(ct.bid(0), 8)), padding_mode=ct.PaddingMode.ZERO
    )
    ct.store_advanced_indexing(y, (ct.arange(4, dtype=ct.int32), ct.Slice(0, 8)), rows)


@ct.kernel
def control(x, y, n):
    i = ct.bid(0)
    total = ct.zeros((8,), ct.float32)
    if i == 0:
        return
    for k in range(1, n, 3):
        if k == i:
            continue
        total = total + ct.load(x, (k,), (8,))
    steps = 0
    while True:
        steps = steps + 1
        if steps > 5:
            break
        if steps == 3:
            total = total * 2.0
        else:
            total = total + 1.0
    ct.store(y, (i,), total if i > 3 else -total)


@ct.kernel
def talks(x):
    a = ct.load(x, (0,), (4,))
    ct.printf("values %f of %d\n", a, ct.bid(0))
    ct.print(a, ct.bid(0), sep=", ")
    ct.assert_(a < 5.0, 'not "small"')  # noqa: PT009 - cuda.tile calls it so


@ct.kernel
def parts(x, y, n):
    left = x.slice(axis=1, start=n, stop=n + 8)
    a = ct.load(left, (0, 0), (4, 8), latency=3, allow_tma=False)
    ct.store(y, (0, 0), a, latency=4)


@ct.kernel(occupancy=2, num_ctas=ct.ByTarget(sm_100=2, default=1))
def hinted(x, n: ct.ScalarInt64, big: ct.IndexedWithInt64):
    ct.store(big, (n,), ct.load(x, (ct.assume_divisible_by(ct.bid(0), 4),), (8,)))


# A kernel, its arguments as `dtype:rank`, `dtype` for a scalar, and the first version that it can
# be written in.
KERNELS: dict[str, tuple[Any, str, Version]] = {
    "floats": (floats, "f32:1 f32:1", (13, 1)),
    "reductions": (reductions, "f32:2 f32:2 f32:1", (13, 1)),
    "products": (products, "bf16:2 bf16:2 f32:2 i8:2 i32:2", (13, 1)),
    "products_f8": (products, "e4m3:2 e4m3:2 f32:2 u8:2 i32:2", (13, 1)),
    "views": (views, "f32:2 f32:2", (13, 3)),
    "control": (control, "f32:1 f32:1 i32", (13, 1)),
    "talks": (talks, "f32:1", (13, 2)),
    "parts": (parts, "f32:2 f32:2 i32", (13, 1)),
    "hinted": (hinted, "f16:1 i64 f16:1", (13, 1)),
}


@functools.cache
def compiled(name: str, version: Version = NEWEST, divisible: int = 1) -> bytes:
    """A kernel's Tile IR; `divisible` is what is promised of its arrays."""
    kernel, arguments, _ = KERNELS[name]
    words = arguments.split()
    shared = sum(":" in word for word in words) > 1
    bindings = [
        _binding(word, divisible, shared=shared, wide=name == "hinted" and place == 2)
        for place, word in enumerate(words)
    ]
    return api.export(kernel, bindings, symbol=name, target="sm_100", version=version).bytecode


def _binding(word: str, divisible: int, *, shared: bool, wide: bool) -> Any:
    dtype, _, rank = word.partition(":")
    if not rank:
        return ctc.ScalarConstraint(getattr(ct, DTYPES[dtype]))
    dims = int(rank)
    return ctc.ArrayConstraint(
        getattr(ct, DTYPES[dtype]),
        dims,
        index_dtype=ct.int64 if wide else ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=("inputs",) if shared else (),
        may_alias_internally=False,
        stride_constant=(*(None,) * (dims - 1), 1 if divisible > 1 else None),
        stride_divisible_by=(*(divisible,) * (dims - 1), 1),
        shape_divisible_by=divisible,
        base_addr_divisible_by=divisible,
    )
