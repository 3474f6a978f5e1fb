"""Random tensors: Philox 4x32-10 by seed and element.

The bits are the same on every device. docs/reference/random.md says how to reproduce them.
"""

from __future__ import annotations

import os
import struct
from typing import Any

from tilec_runtime.api.making import Make, known, real, sized
from tilec_runtime.device.scalars import shown, whole
from tilec_runtime.errors import CallError
from tilec_runtime.kernels import recipes
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.tensors.tensor import Tensor

_MADE = ("f16", "bf16", "f32", "f64")
_OTHERS = tuple(name for name in DTYPES if name not in _MADE)


def rand(shape: Any, *, dtype: Any = "f32", seed: int | None = None) -> DeviceOp[Tensor]:
    """Return an op that makes random numbers, uniform in [0, 1).

    They are multiples of 2^-24 (f64: 2^-53, f16: 2^-11, bf16: 2^-8).

    Args:
        shape: extents: an int or a tuple.
        dtype: f16, bf16, f32 or f64.
        seed: from 0 to 2^64 - 1; the same seed gives the same bits on every device. None draws a
            seed.

    Raises:
        TensorError: the shape or the dtype is not valid.
        CallError: the seed is not valid.
    """
    name = known("rand", dtype, but=_OTHERS)
    return Make("rand", sized("rand", shape, name), name, recipes.Uniform(seed=_seed("rand", seed)))


def randn(
    shape: Any, *, mean: float = 0.0, std: float = 1.0, dtype: Any = "f32", seed: int | None = None
) -> DeviceOp[Tensor]:
    """Return an op that makes random numbers of a normal distribution.

    For f16 and bf16 they are computed in f32, and rounded.

    Args:
        shape: extents: an int or a tuple.
        mean: mean of the distribution.
        std: standard deviation; not negative.
        dtype: f16, bf16, f32 or f64.
        seed: as for `rand`.

    Raises:
        TensorError: the shape or the dtype is not valid.
        CallError: the seed, the mean or the deviation is not valid.
    """
    name = known("randn", dtype, but=_OTHERS)
    middle = _computed("mean", mean, name)
    deviation = _computed("std", std, name)
    if deviation < 0:
        raise CallError(f"randn: std is {shown(std)}, and a deviation is not negative")
    recipe = recipes.Normal(seed=_seed("randn", seed), mean=middle, deviation=deviation)
    return Make("randn", sized("randn", shape, name), name, recipe)


def _computed(name: str, value: Any, dtype: str) -> float:
    """Round a number to the type of the computation: f64, or f32 for all other dtypes."""
    number = real("randn", name, value)
    code = "<d" if dtype == "f64" else "<f"
    try:
        rounded: float = struct.unpack(code, struct.pack(code, number))[0]
    except (OverflowError, struct.error) as error:
        raise CallError(
            f"randn: {name} is {shown(value)}, which f32 cannot hold"
        ) from error  # only f32: `real` has checked for f64
    return rounded


def _seed(function: str, seed: Any) -> int:
    if seed is None:
        return int.from_bytes(os.urandom(8), "little")
    number = whole(f"{function}: the seed", seed)
    if not 0 <= number < 2**64:
        raise CallError(
            f"{function}: the seed is {shown(number)}, and must be from 0 to 2^64 - 1",
            fix="take it modulo 2**64",
        )
    return number
