"""Arithmetic whose error is known: float64 results rounded to odd, which any later rounding to
fewer digits treats as exact.

The operands are float64 numbers that float32 holds too, so that no step overflows or loses digits
below the normal range.
"""

from __future__ import annotations

import numpy as np

from tilec_runtime.cpu.tileir.ir import Rounding
from tilec_runtime.cpu.tileir.values import Array

_SPLIT = float(2**27 + 1)


def add(x: Array, y: Array, *, down: bool = False) -> Array:
    """x + y; `down` where it will be rounded down."""
    total, error = two_sum(x, y)
    return odd(cancelled(total, x, y) if down else total, error)


def multiply(x: Array, y: Array) -> Array:
    """x * y, which has at most 48 digits."""
    return np.multiply(x, y, dtype=np.float64)


def divide(x: Array, y: Array) -> Array:
    """x / y."""
    quotient = x / y
    return odd(quotient, residual_of_quotient(x, y, quotient) * np.sign(y))


def square_root(x: Array) -> Array:
    """The square root of x."""
    root = np.sqrt(x)
    return odd(root, residual_of_root(x, root))


def fused(x: Array, y: Array, z: Array, *, down: bool = False) -> Array:
    """x * y + z."""
    return add(multiply(x, y), z, down=down)


def cancelled(total: Array, x: Array, y: Array) -> Array:
    """The sum `total` of x and y as rounding down gives it: zero is negative where numbers
    cancelled out.
    """
    return np.where(total == 0, -(-x - y), total)


def two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """The sum to nearest, and what it lacks."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def halves(x: Array) -> tuple[Array, Array]:
    """Two numbers with at most 26 digits each that add up to x, which is below 2**995 in magnitude."""
    scaled = x * _SPLIT
    high = scaled - (scaled - x)
    return high, x - high


def two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """The product to nearest, and what it lacks; the product is not below 2**-968 in magnitude."""
    product = x * y
    xh, xl = halves(x)
    yh, yl = halves(y)
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def residual_of_quotient(x: Array, y: Array, quotient: Array) -> Array:
    """x - quotient * y, exactly."""
    product, error = two_product(quotient, y)
    return (x - product) - error


def residual_of_root(x: Array, root: Array) -> Array:
    """x - root * root, exactly."""
    product, error = two_product(root, root)
    return (x - product) - error


def odd(nearest: Array, error: Array) -> Array:
    """Rounds to odd: towards zero, with the last digit set where anything was dropped. `error` is
    what `nearest` lacks, or has its sign.
    """
    bits = np.ascontiguousarray(nearest).view(f"i{nearest.itemsize}")
    above, below = (
        error > 0,
        error < 0,
    )  # false where the result is not finite: the error is no number then
    negative = bits < 0
    result = bits - ((above & negative) | (below & ~negative))
    result |= above | below
    return result.view(nearest.dtype)


def odd_float32(exact: Array) -> Array:
    """Float64 numbers rounded to odd float32 numbers. A finite number that became infinite turns
    into the largest one, which is odd.
    """
    nearest = exact.astype(np.float32)
    return odd(nearest, exact - nearest)


def directed(nearest: Array, error: Array, rounding: Rounding) -> Array:
    """The neighbour of `nearest` that a rounding mode wants, given the sign of what `nearest`
    lacks.
    """
    match rounding:
        case Rounding.POSITIVE_INF:
            return np.where(error > 0, np.nextafter(nearest, np.inf), nearest)
        case Rounding.NEGATIVE_INF:
            return np.where(error < 0, np.nextafter(nearest, -np.inf), nearest)
        case Rounding.ZERO:
            beyond = ((error < 0) & (nearest > 0)) | ((error > 0) & (nearest < 0))
            return np.where(beyond, np.nextafter(nearest, 0.0), nearest)
        case _:
            return nearest
