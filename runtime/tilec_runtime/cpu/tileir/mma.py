"""Matrix products.

Products of elements are exact. Sums are computed in float32 or float64, and rounded once to the
accumulator's type.
"""

from __future__ import annotations

import numpy as np

from tilec_runtime.cpu.tileir import integer
from tilec_runtime.cpu.tileir.formats import narrow, widen
from tilec_runtime.cpu.tileir.frame import Binder, Bodies, Step
from tilec_runtime.cpu.tileir.ir import Op, Scalar, Signedness, Value
from tilec_runtime.cpu.tileir.reduce import halving
from tilec_runtime.cpu.tileir.steps import compute, element, tile
from tilec_runtime.cpu.tileir.values import Array

_FLOAT32_EXACT = 2**24  # integers up to it are exact in float32


def _floats(op: Op, _: Bodies) -> Step:
    kind, other, target = (element(op.operand(name)) for name in ("lhs", "rhs", "acc"))

    def multiply(lhs: Array, rhs: Array, acc: Array) -> Array:
        return _accumulated(product(widen(lhs, kind), widen(rhs, other)), acc, target)

    return compute(op, multiply, "lhs", "rhs", "acc")


def _scaled(op: Op, _: Bodies) -> Step:
    """Build `mmaf_scaled`.

    Each `run` elements along the inner dimension share one scale.
    """
    kinds = [element(op.operand(name)) for name in ("lhs", "rhs", "lhs_scale", "rhs_scale")]
    target = element(op.operand("acc"))
    lhs_run = _run(op.operand("lhs"), op.operand("lhs_scale"), -1)
    rhs_run = _run(op.operand("rhs"), op.operand("rhs_scale"), -2)

    def multiply(lhs: Array, rhs: Array, acc: Array, lhs_scale: Array, rhs_scale: Array) -> Array:
        wide = [
            widen(held, kind)
            for held, kind in zip((lhs, rhs, lhs_scale, rhs_scale), kinds, strict=True)
        ]
        # A scaled element has at most 8 digits, and no scale exceeds the range of float64.
        first = wide[0] * np.repeat(wide[2].astype(np.float64), lhs_run, axis=-1)
        second = wide[1] * np.repeat(wide[3].astype(np.float64), rhs_run, axis=-2)
        return _accumulated(product(first, second), acc, target)

    return compute(op, multiply, "lhs", "rhs", "acc", "lhs_scale", "rhs_scale")


def _run(elements: Value, scales: Value, axis: int) -> int:
    return tile(elements).shape[axis] // tile(scales).shape[axis]


def _integers(op: Op, _: Bodies) -> Step:
    kinds = [element(op.operand(name)) for name in ("lhs", "rhs")]
    signs = [op.attributes[f"signedness_{name}"] is Signedness.SIGNED for name in ("lhs", "rhs")]
    inner = tile(op.operand("lhs")).shape[-1]
    largest = inner * 2 ** (kinds[0].bits + kinds[1].bits - sum(signs))
    wide = np.float32 if largest <= _FLOAT32_EXACT else np.float64

    def multiply(lhs: Array, rhs: Array, acc: Array) -> Array:
        first, second = (
            (integer.signed(held) if is_signed else integer.unsigned(held, kind)).astype(wide)
            for held, kind, is_signed in zip((lhs, rhs), kinds, signs, strict=True)
        )
        total = product(first, second).astype(np.int64)
        total += acc
        return total.astype(acc.dtype)

    return compute(op, multiply, "lhs", "rhs", "acc")


def product(lhs: Array, rhs: Array) -> Array:
    """Return the matrix product of each block, independent of the other blocks.

    The order of BLAS's sums depends on the shape, the layout and, for vectors, the address.
    Therefore each block is multiplied separately, in the same layout, and products with vectors do
    not use BLAS.
    """
    if lhs.shape[-2] == 1:
        return halving(np.swapaxes(lhs, -1, -2) * rhs, rhs.ndim - 2, np.add)[..., np.newaxis, :]
    if rhs.shape[-1] == 1:
        return halving(lhs * np.swapaxes(rhs, -1, -2), lhs.ndim - 1, np.add)[..., np.newaxis]
    return np.matmul(np.ascontiguousarray(lhs), np.ascontiguousarray(rhs))


def _accumulated(total: Array, acc: Array, target: Scalar) -> Array:
    if (
        target in (Scalar.F32, Scalar.F64)
        and total.dtype == acc.dtype
        and total.shape[0] >= acc.shape[0]
    ):
        total += acc
        return total
    return narrow(total + widen(acc, target), target)


BINDERS: dict[str, Binder] = {"mmaf": _floats, "mmaf_scaled": _scaled, "mmai": _integers}
