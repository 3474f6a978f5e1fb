"""Fused multiply and add to nearest, at the cost of a few passes: the exact way is taken only for elements that need it."""

from __future__ import annotations

import numpy as np

from tilec_runtime.cpu.tileir import exact
from tilec_runtime.cpu.tileir.formats import narrow, widen
from tilec_runtime.cpu.tileir.ir import Scalar
from tilec_runtime.cpu.tileir.values import Array

_DROPPED = np.int64((1 << 29) - 1)  # digits of a float64 that a float32 lacks
_TIE = np.int64(1 << 28)
_LEAST_NORMAL = np.float32(2.0**-126)


def float32(x: Array, y: Array, z: Array) -> Array:
    """x * y + z of float32 tiles, rounded once."""
    total = np.multiply(x, y, dtype=np.float64)
    if total.size < z.size:
        total = np.add(total, z)
    else:
        total += z
    result = total.astype(np.float32)
    # The float64 sum is itself rounded. That matters only where it then lies halfway between two float32 numbers.
    doubtful = (total.view(np.int64) & _DROPPED) == _TIE
    small = np.abs(result) < _LEAST_NORMAL
    if small.any():
        doubtful |= small & (total != 0)
    if doubtful.any():
        at = np.nonzero(doubtful)
        parts = [np.broadcast_to(held, total.shape)[at].astype(np.float64) for held in (x, y, z)]
        result[at] = exact.fused(*parts).astype(np.float32)
    return result


def float16(x: Array, y: Array, z: Array) -> Array:
    """The same for float16: the float64 sum is exact wherever its digits could matter."""
    total = np.multiply(widen(x, Scalar.F16), widen(y, Scalar.F16), dtype=np.float64)
    return narrow(total + widen(z, Scalar.F16), Scalar.F16)
