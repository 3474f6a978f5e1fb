"""Floating point arithmetic: one rounding per operation, in the mode it names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir import double, exact
from tilec_runtime.cpu.tileir.formats import FORMATS, chunked, narrow, round_exact, widen
from tilec_runtime.cpu.tileir.frame import Binder, Bodies, Step
from tilec_runtime.cpu.tileir.ir import Op, Ordering, Predicate, Rounding, Scalar
from tilec_runtime.cpu.tileir.steps import compute, element
from tilec_runtime.cpu.tileir.values import Array, storage

LEAST_NORMAL = np.float32(2.0**-126)  # of float32
_GREATEST_DIVISOR = np.float32(2.0**126)
_DROPPED = np.int64((1 << 29) - 1)  # bits of a float64 that a float32 lacks
_TIE = np.int64(1 << 28)
_NEAREST = frozenset({Rounding.NEAREST_EVEN, Rounding.APPROX, Rounding.FULL})
_NATIVE = frozenset({Scalar.F32, Scalar.TF32, Scalar.F64})  # held as NumPy computes with them
_SUMS = frozenset({"addf", "subf", "fma"})  # their zeros can be negative when rounding down
# Keys: whether to choose the largest number, whether to propagate NaN.
EXTREMES: dict[tuple[bool, bool], Any] = {
    (True, True): np.maximum,
    (True, False): np.fmax,
    (False, True): np.minimum,
    (False, False): np.fmin,
}
_UFUNCS: dict[str, Any] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "sqrt": np.sqrt,
}
_EXACT_UFUNCS: dict[str, Any] = {"ceil": np.ceil, "floor": np.floor, "remf": np.fmod}
_EXACT: dict[str, Callable[..., double.Result]] = {
    "addf": double.add,
    "subf": lambda x, y, **more: double.add(x, -y, **more),
    "mulf": double.multiply,
    "divf": double.divide,
    "sqrt": double.square_root,
    "fma": double.fused,
}


def arithmetic(name: str, kind: Scalar, rounding: Rounding, flush: bool) -> Callable[..., Array]:
    """Return the function of an arithmetic operation on tiles of a type.

    The operations are `addf`, `subf`, `mulf`, `divf`, `sqrt` and `fma`.
    """
    function = _rounding_once(name, kind, rounding)
    if not (flush and kind is Scalar.F32):
        return function
    return lambda *tiles: flushed(function(*[flushed(held) for held in tiles]))


def flushed(held: Array) -> Array:
    """Flush subnormal float32 numbers to zeros of the same sign."""
    normal = np.abs(held) >= LEAST_NORMAL
    return held if normal.all() else held * normal


def _rounding_once(name: str, kind: Scalar, rounding: Rounding) -> Callable[..., Array]:
    nearest = rounding in _NEAREST
    if name == "fma" and nearest and kind in (Scalar.F32, Scalar.F16):
        return chunked(fused_float32 if kind is Scalar.F32 else fused_float16)
    if nearest and name != "fma" and kind is not Scalar.TF32:
        ufunc = _UFUNCS[name]
        if name == "divf" and rounding is Rounding.APPROX:
            return approximate_quotient
        if kind in (Scalar.F32, Scalar.F64):
            return ufunc
        # Double rounding is harmless for these operations, since the intermediate type has at least
        # twice the digits plus two.
        return chunked(lambda *tiles: narrow(ufunc(*[widen(held, kind) for held in tiles]), kind))
    function = _EXACT[name]
    if rounding is Rounding.NEGATIVE_INF and name in _SUMS:
        function = functools.partial(function, down=True)

    def rounded(*tiles: Array) -> Array:
        wide = [widen(held, kind).astype(np.float64, copy=False) for held in tiles]
        return round_exact(*function(*wide), kind, rounding)

    return chunked(rounded)


def approximate_quotient(x: Array, y: Array) -> Array:
    """Compute x / y of float32 tiles, which is zero for a finite y above 2**126.

    A GPU multiplies by an approximate 1 / y, which is zero for such y (PTX ISA,
    `div.approx.f32`).
    """
    vanishes = (np.abs(y) > _GREATEST_DIVISOR) & np.isfinite(y)
    quotient: Array = np.where(vanishes, x * np.copysign(np.float32(0), y), np.divide(x, y))
    return quotient


def fused_float32(x: Array, y: Array, z: Array) -> Array:
    """Compute x * y + z of float32 tiles with one rounding."""
    total = np.multiply(x, y, dtype=np.float64)
    if total.size < z.size:
        total = np.add(total, z)
    else:
        total += z
    result = total.astype(np.float32)
    # The float64 sum is already rounded, which matters only if it is halfway between two float32
    # numbers.
    doubtful = (total.view(np.int64) & _DROPPED) == _TIE
    small = np.abs(result) < LEAST_NORMAL
    if small.any():
        doubtful |= small & (total != 0)
    if doubtful.any():
        at = np.nonzero(doubtful)
        parts = [np.broadcast_to(held, total.shape)[at].astype(np.float64) for held in (x, y, z)]
        product = parts[0] * parts[1]
        result[at] = exact.odd(*exact.two_sum(product, parts[2])).astype(np.float32)
    return result


def fused_float16(x: Array, y: Array, z: Array) -> Array:
    """Compute x * y + z of float16 tiles.

    The float64 sum is exact if its digits matter.
    """
    total = np.multiply(widen(x, Scalar.F16), widen(y, Scalar.F16), dtype=np.float64)
    return narrow(total + widen(z, Scalar.F16), Scalar.F16)


def _arithmetic(op: Op, _: Bodies) -> Step:
    kind = element(op.results[0])
    rounding = op.attributes.get("rounding", Rounding.NEAREST_EVEN)
    return compute(
        op,
        arithmetic(op.name, kind, rounding, op.attributes.get("flush_to_zero", False)),
        *_OPERANDS.get(op.name, ("lhs", "rhs")),
    )


def extreme(
    name: str, kind: Scalar, propagate: bool, flush: bool
) -> Callable[[Array, Array], Array]:
    """Return the function of `maxf` or `minf`.

    +0 is greater than -0. A NaN is the result if `propagate` is set, and ignored otherwise.
    """
    largest = name == "maxf"
    ufunc = EXTREMES[largest, propagate]

    def choose(x: Array, y: Array) -> Array:
        result: Array = ufunc(x, y)
        zero = result == 0
        if zero.any():
            signs = np.signbit(x) & np.signbit(y) if largest else np.signbit(x) | np.signbit(y)
            both = zero & (x == y)
            result[both] = np.where(np.broadcast_to(signs, result.shape)[both], -0.0, 0.0)
        return result

    if flush and kind is Scalar.F32:
        return lambda x, y: choose(flushed(x), flushed(y))
    if kind in _NATIVE:
        return choose
    return chunked(lambda x, y: narrow(choose(widen(x, kind), widen(y, kind)), kind))


def _extreme(op: Op, _: Bodies) -> Step:
    flags = [op.attributes.get(name, False) for name in ("propagate_nan", "flush_to_zero")]
    return compute(op, extreme(op.name, element(op.results[0]), *flags), "lhs", "rhs")


def _sign(op: Op, _: Bodies) -> Step:
    """Build `absf` or `negf`, which change the sign bit alone."""
    kind = element(op.results[0])
    held = storage(kind)
    bits = np.dtype(f"u{held.itemsize}")
    sign = 1 << (31 if kind is Scalar.TF32 else kind.bits - 1)
    mask = np.array(sign if op.name == "negf" else sign - 1, bits)
    ufunc = np.bitwise_xor if op.name == "negf" else np.bitwise_and
    if not FORMATS[kind].signed:
        mask = np.array(0 if op.name == "negf" else (1 << kind.bits) - 1, bits)
    return compute(op, lambda x: ufunc(x.view(bits), mask).view(held), "source")


def _exact(op: Op, _: Bodies) -> Step:
    """Build `ceil`, `floor` or `remf`, which are exact in every type.

    The result of `remf` has the sign of the dividend.
    """
    kind = element(op.results[0])
    ufunc = _EXACT_UFUNCS[op.name]
    names = ("lhs", "rhs") if op.name == "remf" else ("source",)
    if kind in _NATIVE:
        return compute(op, ufunc, *names)
    return compute(
        op,
        chunked(lambda *tiles: narrow(ufunc(*[widen(held, kind) for held in tiles]), kind)),
        *names,
    )


def comparison(predicate: Predicate, ordering: Ordering) -> Callable[[Array, Array], Array]:
    """Return the function of `cmpf`.

    With a NaN, ordered comparisons are false, and unordered ones true.
    """
    if ordering is Ordering.ORDERED:
        # NumPy's comparisons with a NaN are false, except for `not equal`.
        return _ORDERED[predicate]
    opposite = _ORDERED[_OPPOSITE[predicate]]
    return lambda x, y: ~opposite(x, y)


def _compare(op: Op, _: Bodies) -> Step:
    kind = element(op.operand("lhs"))
    function = comparison(op.attributes["predicate"], op.attributes["ordering"])
    if kind in _NATIVE:
        return compute(op, function, "lhs", "rhs")
    return compute(op, chunked(lambda x, y: function(widen(x, kind), widen(y, kind))), "lhs", "rhs")


_ORDERED: dict[Predicate, Callable[[Array, Array], Array]] = {
    Predicate.EQUAL: np.equal,
    Predicate.NOT_EQUAL: lambda x, y: (x < y) | (x > y),
    Predicate.LESS_THAN: np.less,
    Predicate.LESS_THAN_OR_EQUAL: np.less_equal,
    Predicate.GREATER_THAN: np.greater,
    Predicate.GREATER_THAN_OR_EQUAL: np.greater_equal,
}
_OPPOSITE = {
    Predicate.EQUAL: Predicate.NOT_EQUAL,
    Predicate.NOT_EQUAL: Predicate.EQUAL,
    Predicate.LESS_THAN: Predicate.GREATER_THAN_OR_EQUAL,
    Predicate.LESS_THAN_OR_EQUAL: Predicate.GREATER_THAN,
    Predicate.GREATER_THAN: Predicate.LESS_THAN_OR_EQUAL,
    Predicate.GREATER_THAN_OR_EQUAL: Predicate.LESS_THAN,
}
_OPERANDS = {"sqrt": ("source",), "fma": ("lhs", "rhs", "acc")}

BINDERS: dict[str, Binder] = {
    **dict.fromkeys(("addf", "subf", "mulf", "divf", "sqrt", "fma"), _arithmetic),
    **dict.fromkeys(("maxf", "minf"), _extreme),
    **dict.fromkeys(("absf", "negf"), _sign),
    **dict.fromkeys(_EXACT_UFUNCS, _exact),
    "cmpf": _compare,
}
