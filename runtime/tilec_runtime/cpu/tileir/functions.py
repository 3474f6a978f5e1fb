"""Inexact functions: exponentials, logarithms, powers, trigonometry.

docs/background/cpu-device.md gives their accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir import integer
from tilec_runtime.cpu.tileir.floats import LEAST_NORMAL, flushed
from tilec_runtime.cpu.tileir.formats import chunked, narrow, widen
from tilec_runtime.cpu.tileir.frame import Binder, Bodies, Step
from tilec_runtime.cpu.tileir.ir import Op, Scalar
from tilec_runtime.cpu.tileir.steps import compute, element
from tilec_runtime.cpu.tileir.values import Array

Function = Callable[..., Array]


def _function(op: Op, _: Bodies) -> Step:
    kind = element(op.results[0])
    function = computed(op.name, kind)
    if kind is Scalar.F32 and op.attributes.get("flush_to_zero", False):
        function = _exp2_flushed if op.name == "exp2" else _flushed(function)
    return compute(op, function, *_OPERANDS.get(op.name, ("source",)))


def computed(name: str, kind: Scalar) -> Function:
    """Return a function on tiles of a type."""
    if kind is Scalar.F64:
        return _DOUBLE[name]
    function = (
        _UFUNCS[name] if name in _FLOAT32 else _SINGLE.get(name) or _through_float64(_UFUNCS[name])
    )
    if kind is Scalar.F32:
        return function
    return chunked(lambda *tiles: narrow(function(*[widen(held, kind) for held in tiles]), kind))


def _through_float64(ufunc: Any) -> Function:
    """Return a function on float32 tiles that computes in float64.

    NumPy converts inputs and outputs in chunks of a few thousand elements.
    """

    def run(*tiles: Array) -> Array:
        result = np.empty(np.broadcast_shapes(*[held.shape for held in tiles]), np.float32)
        return ufunc(*tiles, out=result, dtype=np.float64, casting="same_kind")

    return run


def _raised(x: Array, exponent: Array) -> Array:
    """Compute x ** exponent in float64, with results independent of the batch.

    NumPy computes differently if one exponent serves many numbers, which happens in some batches
    only. A contiguous array of at least two exponents prevents that.
    """
    shape = np.broadcast_shapes(x.shape, exponent.shape)
    size = math.prod(shape)
    exponents = np.ones(max(size, 2))
    exponents[:size].reshape(shape)[...] = exponent
    numbers = np.ones(max(size, 2))
    numbers[:size].reshape(shape)[...] = x
    return np.power(numbers, exponents)[:size].reshape(shape)


def _flushed(function: Function) -> Function:
    return lambda *tiles: flushed(function(*[flushed(held) for held in tiles]))


def _exp2_flushed(x: Array) -> Array:
    """Compute 2 ** x with subnormal results flushed to zero.

    Inputs need no flush: a subnormal input gives 1, as zero does.
    """
    result = _SINGLE_EXP2(x)
    result *= result >= LEAST_NORMAL
    return result


def _inverse_root(x: Array) -> Array:
    return np.divide(1.0, np.sqrt(x, dtype=np.float64)).astype(x.dtype)


def _power_of_int(op: Op, _: Bodies) -> Step:
    kind = element(op.results[0])
    return compute(
        op,
        chunked(lambda x, n: narrow(_power(widen(x, kind), integer.signed(n)), kind)),
        "source",
        "exponent",
    )


def _power(x: Array, exponent: Array) -> Array:
    """Compute x ** exponent by repeated squaring with rounded products, as GPUs do.

    A negative exponent inverts the result at the end.
    """
    left = np.abs(exponent.astype(np.int64))
    result, square = np.ones(np.broadcast_shapes(x.shape, exponent.shape), x.dtype), x
    while left.any():
        result = np.where(left & 1, result * square, result)
        square = square * square
        left >>= 1
    return np.where(exponent < 0, 1 / result, result)


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
    "atan2": np.arctan2,
}
# Other float32 results are computed in float64 and rounded once, which gives the same numbers on
# every machine. These two are thirty times slower in float64, and NumPy's float32 versions are as
# accurate as the hardware's.
_FLOAT32 = frozenset({"sin", "cos"})
_SINGLE: dict[str, Function] = {
    "rsqrt": chunked(_inverse_root),
    "fpowf": chunked(lambda x, n: _raised(x, n).astype(np.float32)),
}
_SINGLE_EXP2 = _through_float64(np.exp2)
_DOUBLE: dict[str, Function] = {**_UFUNCS, "rsqrt": _inverse_root, "fpowf": chunked(_raised)}
# The first operand of `atan2` is the numerator, in spite of its name `x`.
_OPERANDS = {"fpowf": ("source", "exponent"), "atan2": ("x", "y")}

BINDERS: dict[str, Binder] = {**dict.fromkeys(_DOUBLE, _function), "fpowi": _power_of_int}
