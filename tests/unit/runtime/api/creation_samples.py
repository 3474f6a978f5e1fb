"""Ops that make tensors, one for each function, dtype and size: the cpu device is held against
references, a GPU against it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilec_runtime import api
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors.host import numpy_dtype

Make = Callable[[], Any]
# Dtypes that convert into each other.
CONVERTED = (
    "bool",
    "i8",
    "i16",
    "i32",
    "i64",
    "u8",
    "u16",
    "u32",
    "u64",
    "f16",
    "bf16",
    "f32",
    "f64",
    "f8e4m3",
    "f8e5m2",
    "f8e8m0",
)
COUNTED = tuple(name for name in CONVERTED if name not in ("bool", "f8e8m0"))
SIZES = (0, 1, 5, 4097, 70001)


def contents(op: Any) -> np.ndarray[Any, Any]:
    """What an op makes, as an array."""
    found: np.ndarray[Any, Any] = op.then(api.to_host).sync()
    return found


def value_of(dtype: str) -> Any:
    """A value whose bytes differ, as far as the dtype has one."""
    return (
        True
        if dtype == "bool"
        else 2
        if dtype == "f8e8m0"
        else 1.75
        if DTYPES[dtype].kind == "float"
        else 97
    )


def _filled() -> dict[str, Make]:
    made: dict[str, Make] = {}
    for dtype in CONVERTED:
        made[f"ones-{dtype}"] = lambda dtype=dtype: api.ones((3, 7), dtype)
        for size in SIZES:
            made[f"full-{dtype}-{size}"] = lambda dtype=dtype, size=size: api.full(
                size, value_of(dtype), dtype
            )
        if dtype == "f8e8m0":
            continue
        made[f"zeros-{dtype}"] = lambda dtype=dtype: api.zeros((5, 3), dtype)
        for rows, columns in ((1, 1), (7, 7), (3, 300), (300, 3), (0, 4)):
            made[f"eye-{dtype}-{rows}x{columns}"] = lambda d=dtype, r=rows, c=columns: api.eye(
                r, c, d
            )
        if dtype == "bool":
            continue
        made[f"arange-{dtype}"] = lambda dtype=dtype: api.arange(100, dtype=dtype)
        made[f"linspace-{dtype}"] = lambda dtype=dtype: api.linspace(1, 100, 1234, dtype=dtype)
        if DTYPES[dtype].kind != "uint":
            made[f"arange-down-{dtype}"] = lambda dtype=dtype: api.arange(50, -50, -3, dtype=dtype)
        if DTYPES[dtype].bits >= 32:
            made[f"arange-long-{dtype}"] = lambda dtype=dtype: api.arange(70001, dtype=dtype)
        if DTYPES[dtype].kind == "float":
            made[f"arange-tenths-{dtype}"] = lambda dtype=dtype: api.arange(
                -20, 20, 0.1, dtype=dtype
            )
            made[f"linspace-thirds-{dtype}"] = lambda dtype=dtype: api.linspace(
                -10 / 3, 1e-3, 70001, dtype=dtype
            )
    made["arange-wide-u64"] = lambda: api.arange(2**64 - 100, 2**64 - 1, dtype="u64")
    made["arange-wide-i64"] = lambda: api.arange(-(2**63), 2**63 - 1, 2**50 + 1, dtype="i64")
    return made


def _random() -> dict[str, Make]:
    made: dict[str, Make] = {}
    for dtype in ("f16", "bf16", "f32", "f64"):
        for size in (1, 2, 3, 4097, (1 << 20) + 3):
            made[f"rand-{dtype}-{size}"] = lambda dtype=dtype, size=size: api.rand(
                size, dtype=dtype, seed=2**63 + 5
            )
            made[f"randn-{dtype}-{size}"] = lambda dtype=dtype, size=size: api.randn(
                size, dtype=dtype, seed=7
            )
        made[f"randn-{dtype}-moved"] = lambda dtype=dtype: api.randn(
            (33, 77), mean=-3.3, std=0.7, dtype=dtype, seed=2**64 - 1
        )
    return made


FILLED, RANDOM = _filled(), _random()


def every_bits(dtype: str) -> np.ndarray[Any, Any]:
    """Every pattern of 8 or 16 bits; of wider ones, many at random, around powers of two, and
    halfway between what others have.
    """
    row = DTYPES[dtype]
    if dtype == "bool":
        return np.array([False, True, True, False, True])
    if row.bits <= 16:
        return np.arange(1 << row.bits, dtype=f"u{row.bytes}").view(numpy_dtype(dtype))
    random = np.random.default_rng(5)
    patterns = random.integers(0, 2**row.bits, 20000, dtype=f"u{row.bytes}").view(row.numpy)
    if row.kind == "float":
        with np.errstate(all="ignore"):
            scaled = np.ldexp(
                random.standard_normal(40000), random.integers(-160, 160, 40000)
            ).astype(row.numpy)
            small = np.ldexp(
                random.integers(1, 1 << 13, 40000).astype(np.float64),
                random.integers(-30, 20, 40000),
            ).astype(row.numpy)
        special = np.array(
            [
                0.0,
                -0.0,
                np.inf,
                -np.inf,
                np.nan,
                1e-45,
                448,
                464,
                480,
                57344,
                61440,
                65504,
                65520,
                255.5,
                -0.5,
            ],
            row.numpy,
        )
        edges = np.array([2.0**power for power in (7, 8, 15, 16, 31, 32, 63, 64)], row.numpy)
        around = np.concatenate(
            [
                edges,
                -edges,
                np.nextafter(edges, np.array(0, row.numpy)),
                np.nextafter(-edges, np.array(0, row.numpy)),
            ]
        )
        return np.concatenate(
            [patterns, scaled, small, -small, special, around.astype(row.numpy)]
        ).astype(row.numpy)
    bounds = np.iinfo(row.numpy)
    shifts = (
        (random.integers(0, 2**63, 20000) >> random.integers(0, 63, 20000))
        .astype(np.int64)
        .astype(row.numpy)
    )
    powers = [
        2**k + d
        for k in range(row.bits)
        for d in (-1, 0, 1)
        if bounds.min <= 2**k + d <= bounds.max
    ]
    return np.concatenate(
        [patterns, shifts, np.array([bounds.min, bounds.max, 0, *powers], row.numpy)]
    )
