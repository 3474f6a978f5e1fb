"""Exact float64 arithmetic: the nearest number of each result, and its error.

It uses error-free transformations, and fractions if these would leave float64's range. The sign of
an error is exact, which is all that roundings need; see `formats.round_exact`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from tilec_runtime.cpu.tileir import exact
from tilec_runtime.cpu.tileir.values import Array

Result: TypeAlias = "tuple[Array, Array]"

_LARGE, _SMALL = 2.0**990, 2.0**-900  # between them every error term is a float64 number


def add(x: Array, y: Array, *, down: bool = False) -> Result:
    """x + y; pass `down` if the result will be rounded down."""
    total, error = exact.two_sum(x, y)
    hard = np.isinf(total)
    if down:
        total = exact.cancelled(total, x, y)
    return _checked(total, error, hard, operator.add, x, y)


def multiply(x: Array, y: Array) -> Result:
    """x * y."""
    product, error = exact.two_product(x, y)
    hard = _outside(product) | _outside(x) | _outside(y) | _vanished(product, x, y)
    return _checked(product, error, hard, operator.mul, x, y)


def divide(x: Array, y: Array) -> Result:
    """x / y."""
    quotient = x / y
    error = exact.residual_of_quotient(x, y, quotient) * np.sign(y)
    hard = (_outside(quotient) | _outside(x) | _outside(y)) & (y != 0)
    return _checked(quotient, error, hard, operator.truediv, x, y)


def square_root(x: Array) -> Result:
    """The square root of x."""
    root = np.sqrt(x)
    # Scaled by powers of four so that no step leaves the range.
    scale = np.where(x < _SMALL, 2.0**300, np.where(x > _LARGE, 2.0**-300, 1.0))
    return root, exact.residual_of_root(x * scale * scale, root * scale)


def fused(x: Array, y: Array, z: Array, *, down: bool = False) -> Result:
    """x * y + z; pass `down` if the result will be rounded down."""
    product, low = exact.two_product(x, y)
    middle, lowest = exact.two_sum(z, low)
    high, rest = exact.two_sum(product, middle)
    tail, error = exact.two_sum(lowest, rest)
    total, last = exact.two_sum(high, exact.odd(tail, error))
    # A finite product beyond the range of float64 does not cancel an infinity.
    plain = np.where(np.isinf(z) & np.isfinite(x) & np.isfinite(y), z, product + z)
    simple = (product == 0) | ~np.isfinite(plain)  # the sum is exact, infinite or NaN
    total, last = np.where(simple, plain, total), np.where(simple, 0.0, last)
    if down:
        total = exact.cancelled(total, product, z)
    hard = _outside(product) | _outside(x) | _outside(y) | _outside(z) | _vanished(product, x, y)
    return _checked(total, last, hard, lambda a, b, c: a * b + c, x, y, z)


def _outside(value: Array) -> Array:
    """Mark numbers whose error terms may exceed the range of float64."""
    size = np.abs(value)
    return ((size > _LARGE) | (size < _SMALL)) & (value != 0)


def _vanished(product: Array, x: Array, y: Array) -> Array:
    return (product == 0) & (x != 0) & (y != 0)


def _checked(
    nearest: Array, error: Array, hard: Array, function: Callable[..., Fraction], *tiles: Array
) -> Result:
    """Return a result, with its hard elements computed by `function` of fractions.

    `hard` marks elements whose error may be wrong. Those with an infinite or NaN operand stay.
    """
    for held in tiles:
        hard = hard & np.isfinite(held)
    if hard.any():
        at = np.nonzero(hard)
        parts = [np.broadcast_to(held, nearest.shape)[at].tolist() for held in tiles]
        values = [function(*map(Fraction, numbers)) for numbers in zip(*parts, strict=True)]
        pairs = [_float64(*each) for each in zip(values, nearest[at].tolist(), strict=True)]
        nearest, error = nearest.copy(), np.broadcast_to(error, nearest.shape).copy()
        nearest[at], error[at] = np.transpose(pairs)
    return nearest, error


def _float64(value: Fraction, old: float) -> tuple[float, float]:
    """Return the nearest float64 number, and an error with the right sign.

    The result for zero is `old`, for its sign.
    """
    if value == 0:
        return old, 0.0
    try:
        nearest = float(value)
    except OverflowError:
        infinite = -math.inf if value < 0 else math.inf
        return infinite, -infinite
    return nearest, float(value > nearest) - float(value < nearest)
