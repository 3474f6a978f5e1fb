"""Error-free transformations of float64 numbers, and roundings of their results.

Rounding to odd comes before a rounding to fewer digits, which then gives the same number as
rounding the exact result.
"""

from __future__ import annotations

import numpy as np

from tilec_runtime.cpu.tileir.ir import Rounding
from tilec_runtime.cpu.tileir.values import Array

_SPLIT = float(2**27 + 1)


def cancelled(total: Array, x: Array, y: Array) -> Array:
    """Return the sum `total` of x and y with the zeros of rounding down: x - x is -0."""
    return np.where(total == 0, -(-x - y), total)


def two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """Return the rounded sum and its error."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def halves(x: Array) -> tuple[Array, Array]:
    """Split x into two addends of at most 26 digits.

    The magnitude of x is below 2**995.
    """
    scaled = x * _SPLIT
    high = scaled - (scaled - x)
    return high, x - high


def two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """Return the rounded product and its error.

    The magnitude of the product is at least 2**-968.
    """
    product = x * y
    xh, xl = halves(x)
    yh, yl = halves(y)
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def residual_of_quotient(x: Array, y: Array, quotient: Array) -> Array:
    """Compute x - quotient * y exactly."""
    product, error = two_product(quotient, y)
    return (x - product) - error


def residual_of_root(x: Array, root: Array) -> Array:
    """Compute x - root * root exactly."""
    product, error = two_product(root, root)
    return (x - product) - error


def odd(nearest: Array, error: Array) -> Array:
    """Round to odd: towards zero, with the last bit set if the result is inexact.

    `error` is the exact result minus `nearest`, or any number of the same sign.
    """
    bits = np.ascontiguousarray(nearest).view(f"i{nearest.itemsize}")
    above, below = (
        error > 0,
        error < 0,
    )  # both are false if the result is not finite, since the error is NaN
    negative = bits < 0
    result = bits - ((above & negative) | (below & ~negative))
    result |= above | below
    return result.view(nearest.dtype)


def odd_float32(exact: Array) -> Array:
    """Round float64 numbers to odd float32 numbers.

    A finite number beyond the range becomes the largest float32 number, which is odd.
    """
    nearest = exact.astype(np.float32)
    return odd(nearest, exact - nearest)


def directed(nearest: Array, error: Array, rounding: Rounding) -> Array:
    """Return the result of a directed rounding mode.

    `error` has the sign of the exact result minus `nearest`.
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
