"""Float64 arithmetic in every rounding mode, and fused multiply-add.

It uses error-free transformations, and fractions if these would leave float64's range.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tilec_runtime.cpu.tileir import exact
from tilec_runtime.cpu.tileir.ir import Rounding
from tilec_runtime.cpu.tileir.values import Array

_LARGE, _SMALL = 2.0**990, 2.0**-900  # between them every error term is a float64 number
_DIGITS, _LOWEST, _HIGHEST = 53, -1074, 1024


def add(x: Array, y: Array, rounding: Rounding) -> Array:
    """x + y."""
    total, error = exact.two_sum(x, y)
    result = exact.directed(total, error, rounding)
    result = _by_fractions(result, np.isinf(total), lambda a, b: a + b, rounding, x, y)
    return exact.cancelled(result, x, y) if rounding is Rounding.NEGATIVE_INF else result


def multiply(x: Array, y: Array, rounding: Rounding) -> Array:
    """x * y."""
    product, error = exact.two_product(x, y)
    hard = _outside(product) | _outside(x) | _outside(y) | _vanished(product, x, y)
    return _by_fractions(
        exact.directed(product, error, rounding), hard, lambda a, b: a * b, rounding, x, y
    )


def divide(x: Array, y: Array, rounding: Rounding) -> Array:
    """x / y."""
    quotient = x / y
    error = exact.residual_of_quotient(x, y, quotient) * np.sign(y)
    hard = (_outside(quotient) | _outside(x) | _outside(y)) & (y != 0)
    return _by_fractions(
        exact.directed(quotient, error, rounding), hard, lambda a, b: a / b, rounding, x, y
    )


def square_root(x: Array, rounding: Rounding) -> Array:
    """The square root of x."""
    root = np.sqrt(x)
    # Scaled by powers of four so that no step leaves the range.
    scale = np.where(x < _SMALL, 2.0**300, np.where(x > _LARGE, 2.0**-300, 1.0))
    error = exact.residual_of_root(x * scale * scale, root * scale)
    return exact.directed(root, error, rounding)


def fused(x: Array, y: Array, z: Array, rounding: Rounding) -> Array:
    """x * y + z."""
    product, low = exact.two_product(x, y)
    middle, lowest = exact.two_sum(z, low)
    high, rest = exact.two_sum(product, middle)
    tail, error = exact.two_sum(lowest, rest)
    total, last = exact.two_sum(high, exact.odd(tail, error))
    # A finite product beyond the range of float64 does not cancel an infinity.
    plain = np.where(np.isinf(z) & np.isfinite(x) & np.isfinite(y), z, product + z)
    hard = _outside(product) | _outside(x) | _outside(y) | _outside(z) | _vanished(product, x, y)
    simple = (product == 0) | ~np.isfinite(plain)  # the sum is exact, infinite or NaN
    result = np.where(simple, plain, exact.directed(total, last, rounding))
    if rounding is Rounding.NEGATIVE_INF:
        result = exact.cancelled(result, product, z)
    return _by_fractions(result, hard, lambda a, b, c: a * b + c, rounding, x, y, z)


def _outside(value: Array) -> Array:
    """Mark numbers whose error terms may exceed the range of float64."""
    size = np.abs(value)
    return ((size > _LARGE) | (size < _SMALL)) & (value != 0)


def _vanished(product: Array, x: Array, y: Array) -> Array:
    return (product == 0) & (x != 0) & (y != 0)


def _by_fractions(
    result: Array, hard: Array, function: Callable[..., Fraction], rounding: Rounding, *tiles: Array
) -> Array:
    """Compute with fractions the elements marked by `hard` whose operands are finite."""
    for held in tiles:
        hard = hard & np.isfinite(held)
    if not hard.any():
        return result
    at = np.nonzero(hard)
    parts = [np.broadcast_to(held, result.shape)[at].tolist() for held in tiles]
    done = result.copy()
    done[at] = [
        _nearest(function(*map(Fraction, numbers)), rounding, old)
        for old, *numbers in zip(result[at].tolist(), *parts, strict=True)
    ]
    return done


def _nearest(value: Fraction, rounding: Rounding, old: float) -> float:
    """Round a fraction to float64; the result for zero is `old`, for its sign."""
    if value == 0:
        return old
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    step = max(exponent - _DIGITS + 1, _LOWEST)
    whole, rest = divmod(size / Fraction(2) ** step, 1)
    negative = value < 0
    away = {
        Rounding.ZERO: False,
        Rounding.POSITIVE_INF: not negative,
        Rounding.NEGATIVE_INF: negative,
    }
    up = (
        rest > 0 and away[rounding]
        if rounding in away
        else rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    )
    whole += up
    if whole.bit_length() + step > _HIGHEST:
        magnitude = np.inf if away.get(rounding, True) else float(np.finfo(np.float64).max)
    else:
        magnitude = float(np.ldexp(float(whole), step))
    return -magnitude if negative else magnitude
