"""Functions that no type holds exactly: exponentials, logarithms, powers, trigonometry. `tolerance.py` says how near they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilec.tileir.floats import flushed
from tilec.tileir.formats import narrow, widen
from tilec.tileir.ir import Block, Op, Scalar
from tilec.tileir.steps import attribute, compute_float, element
from tilec.tileir.values import Array

if TYPE_CHECKING:
    from tilec.tileir.frame import Binder, Body, Step

Bodies = Callable[[Block], "Body"]

_LEAST_NORMAL = np.float32(2.0**-126)


def _function(op: Op, _: Bodies) -> Step:
    kind = element(op.results[0])
    ufunc = _UFUNCS[op.name]
    names = _OPERANDS.get(op.name, ("source",))
    if kind is Scalar.F32 and attribute(op, "flush_to_zero", False):
        return compute_float(op, _exp2_flushed if op.name == "exp2" else lambda *tiles: flushed(ufunc(*map(flushed, tiles))), *names)
    if kind in (Scalar.F32, Scalar.F64):
        return compute_float(op, ufunc, *names)
    return compute_float(op, lambda *tiles: narrow(ufunc(*[widen(held, kind) for held in tiles]), kind), *names)


def _exp2_flushed(x: Array) -> Array:
    """2 ** x without numbers below the normal range. An input below it gives 1 as zero does, and no result is negative."""
    result: Array = np.exp2(x)
    result *= result >= _LEAST_NORMAL
    return result


def _power_of_int(op: Op, _: Bodies) -> Step:
    kind = element(op.results[0])

    def power(x: Array, exponent: Array) -> Array:
        # In float64 every exponent of 32 bits is exact.
        return narrow(np.power(widen(x, kind).astype(np.float64), exponent.astype(np.float64)), kind)

    return compute_float(op, power, "source", "exponent")


_UFUNCS: dict[str, Any] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "fpowf": np.power,
    "atan2": np.arctan2,
}
_OPERANDS = {"fpowf": ("source", "exponent"), "atan2": ("x", "y")}

BINDERS: dict[str, Binder] = {**dict.fromkeys(_UFUNCS, _function), "fpowi": _power_of_int}
