"""Integer arithmetic.

Integers are stored signed. Unsigned operations reinterpret their bits.

Results that Tile IR leaves undefined: x / 0 and x % 0 give 0; the lowest number / -1 gives itself;
a shift by the width or more gives 0, or copies of the sign bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.frame import Binder, Bodies, Frame, Step, whole
from tilec_runtime.cpu.tileir.ir import Op, Overflow, Predicate, Rounding, Scalar, Signedness
from tilec_runtime.cpu.tileir.steps import compute, element
from tilec_runtime.cpu.tileir.values import Array, signed_digits, storage

Function = Callable[..., Array]

_WRAPPED = (Scalar.I1, Scalar.I4)  # computed in 8 bits, then truncated


def signed(held: Array) -> Array:
    """Convert to the signed integers that NumPy computes with; i1 becomes 0 or -1."""
    return -held.view(np.int8) if held.dtype == np.bool_ else held


def unsigned(held: Array, kind: Scalar) -> Array:
    """Reinterpret bits as unsigned integers."""
    if kind in _WRAPPED:
        return held.view(np.uint8) & np.uint8((1 << kind.bits) - 1)
    return held.view(f"u{held.itemsize}")


def cut(result: Array, kind: Scalar) -> Array:
    """Truncate integers to the width of a type, and convert them to its storage."""
    if kind is Scalar.I1:
        return (result & 1).astype(np.bool_)
    if kind is Scalar.I4:
        return signed_digits(result.astype(np.uint8))
    return result.view(storage(kind))


def _plain(ufunc: Function, kind: Scalar) -> Function:
    """Adapt an operation that is the same for signed and unsigned integers."""
    if kind in _WRAPPED:
        return lambda *tiles: cut(ufunc(*[signed(held) for held in tiles]), kind)
    return ufunc


def binary(name: str, kind: Scalar, signedness: Signedness = Signedness.SIGNED) -> Function:
    """Return the function of an operation with two operands on tiles of a type."""
    if name in _BITWISE:
        return _BITWISE[name]
    if name in _RINGS:
        return _plain(_RINGS[name], kind)
    by_sign = _BY_SIGN[name]
    if signedness is Signedness.SIGNED:
        return _plain(by_sign, kind)
    return lambda x, y: cut(by_sign(unsigned(x, kind), unsigned(y, kind)), kind)


def _binary(op: Op, _: Bodies) -> Step:
    signedness = op.attributes.get("signedness", Signedness.SIGNED)
    function = binary(op.name, element(op.results[0]), signedness)
    return watched(op, compute(op, function, "lhs", "rhs"))


def _divide(op: Op, _: Bodies) -> Step:
    kind = element(op.results[0])
    function = _DIVISIONS[op.attributes.get("rounding", Rounding.ZERO)]
    if op.attributes["signedness"] is Signedness.UNSIGNED:
        return compute(
            op, lambda x, y: cut(function(unsigned(x, kind), unsigned(y, kind)), kind), "lhs", "rhs"
        )
    return compute(op, _plain(function, kind), "lhs", "rhs")


def _ceiled(x: Array, y: Array) -> Array:
    quotient, rest = np.divmod(x, y)
    return quotient + (rest != 0).astype(quotient.dtype)


def _truncated(x: Array, y: Array) -> Array:
    quotient: Array = np.floor_divide(x, y)
    if x.dtype.kind == "u":
        return quotient
    # `floor_divide` rounds down, so an inexact negative quotient is one too low.
    rest = x - quotient * y
    return quotient + ((rest != 0) & ((x < 0) != (y < 0)) & (y != 0)).astype(quotient.dtype)


def _high(op: Op, _: Bodies) -> Step:
    kind = element(op.results[0])
    return compute(
        op,
        lambda x, y: cut(_high_product(unsigned(x, kind), unsigned(y, kind), kind.bits), kind),
        "lhs",
        "rhs",
    )


def _shift(op: Op, _: Bodies) -> Step:
    kind = element(op.results[0])
    left = op.name == "shli"
    arithmetic = not left and op.attributes["signedness"] is Signedness.SIGNED

    def shift(x: Array, y: Array) -> Array:
        number = unsigned(y, kind)
        beyond = number >= kind.bits
        source = signed(x) if arithmetic else unsigned(x, kind)
        bounded = np.minimum(number, kind.bits - 1).astype(source.dtype)
        result = np.left_shift(source, bounded) if left else np.right_shift(source, bounded)
        if not arithmetic and beyond.any():
            result = result * ~beyond
        return cut(result, kind)

    return watched(op, compute(op, shift, "lhs", "rhs"))


def _unary(op: Op, _: Bodies) -> Step:
    kind = element(op.results[0])
    return watched(
        op, compute(op, _plain(np.negative if op.name == "negi" else np.abs, kind), "source")
    )


def _compare(op: Op, _: Bodies) -> Step:
    kind = element(op.operand("lhs"))
    ufunc = _PREDICATES[op.attributes["predicate"]]
    if op.attributes["signedness"] is Signedness.UNSIGNED:
        return compute(op, lambda x, y: ufunc(unsigned(x, kind), unsigned(y, kind)), "lhs", "rhs")
    if kind is Scalar.I1:
        return compute(op, lambda x, y: ufunc(signed(x), signed(y)), "lhs", "rhs")
    return compute(op, ufunc, "lhs", "rhs")


_BITWISE: dict[str, Any] = {"andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor}
_RINGS: dict[str, Any] = {"addi": np.add, "subi": np.subtract, "muli": np.multiply}
_BY_SIGN: dict[str, Any] = {"maxi": np.maximum, "mini": np.minimum, "remi": np.fmod}
_DIVISIONS: dict[Rounding, Function] = {
    Rounding.ZERO: _truncated,
    Rounding.NEGATIVE_INF: np.floor_divide,
    Rounding.POSITIVE_INF: _ceiled,
}
_PREDICATES: dict[Predicate, Any] = {
    Predicate.EQUAL: np.equal,
    Predicate.NOT_EQUAL: np.not_equal,
    Predicate.LESS_THAN: np.less,
    Predicate.LESS_THAN_OR_EQUAL: np.less_equal,
    Predicate.GREATER_THAN: np.greater,
    Predicate.GREATER_THAN_OR_EQUAL: np.greater_equal,
}

BINDERS: dict[str, Binder] = {
    **dict.fromkeys((*_BITWISE, *_RINGS, *_BY_SIGN), _binary),
    **dict.fromkeys(("shli", "shri"), _shift),
    **dict.fromkeys(("absi", "negi"), _unary),
    "divi": _divide,
    "mulhii": _high,
    "cmpi": _compare,
}


_EXACT = 2**53  # integers below it are exact in float64
_SIGNED = frozenset({Overflow.NSW, Overflow.NW})
_UNSIGNED = frozenset({Overflow.NUW, Overflow.NW})


def watched(op: Op, step: Step) -> Step:
    """Extend a step that promises no overflow by a check for the observer."""
    promise = op.attributes.get("overflow", Overflow.NONE)
    if promise is Overflow.NONE or op.name not in _MADE:
        return step
    sources = [values[0] for values in op.operands.values()]

    def run(frame: Frame) -> None:
        step(frame)
        observer = frame.launch.options.observer
        if observer is None:
            return
        tiles = [frame.get(source) for source in sources]
        beyond = wrapped(op.name, promise, element(sources[0]), element(op.results[0]), *tiles)
        blocks: Array = np.any(beyond.reshape(beyond.shape[0], -1), axis=1)
        if blocks.any():
            observer.overflowed(op, frame, whole(blocks, frame.size))

    return run


def wrapped(name: str, promise: Overflow, kind: Scalar, result: Scalar, *tiles: Array) -> Array:
    """Return which elements overflow although the operation promises that they do not."""
    shape = np.broadcast_shapes(*[held.shape for held in tiles])
    wraps = np.zeros(shape, np.bool_)
    for is_signed in (True, False):
        if promise in (_SIGNED if is_signed else _UNSIGNED):
            least, most = _range(result, is_signed)
            # The shift amount is unsigned even if the shifted value is signed.
            read = [
                _read(held, kind, is_signed and not (name == "shli" and index))
                for index, held in enumerate(tiles)
            ]
            wraps |= _beyond(_MADE[name], least, most, shape, read)
    return wraps


def _beyond(
    function: Callable[..., Array], least: int, most: int, shape: tuple[int, ...], read: list[Array]
) -> Array:
    """Return where a result is out of range.

    The result is computed in float64, or with Python's integers if float64 may be inexact.
    """
    estimate = np.broadcast_to(function(*[held.astype(np.float64) for held in read]), shape)
    result = (estimate < least) | (estimate > most)
    doubtful = np.abs(estimate) >= _EXACT
    for held in read:
        doubtful = doubtful | (held >= _EXACT) | (held <= -_EXACT)
    if doubtful.any():
        exact = function(*[np.broadcast_to(held, shape)[doubtful].astype(object) for held in read])
        result[doubtful] = [not least <= value <= most for value in exact]
    return result


def _read(held: Array, kind: Scalar, is_signed: bool) -> Array:
    """Convert stored integers to signed or unsigned integers of 64 bits."""
    return signed(held).astype(np.int64) if is_signed else unsigned(held, kind).astype(np.uint64)


def _high_product(x: Array, y: Array, bits: int) -> Array:
    """Compute the upper half of the product of unsigned integers of `bits` bits."""
    if bits < 64:
        return (x.astype(np.uint64) * y.astype(np.uint64) >> np.uint64(bits)).astype(x.dtype)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    xh, xl, yh, yl = x >> half, x & low, y >> half, y & low
    middle = xh * yl + (xl * yl >> half)
    other = xl * yh + (middle & low)
    return xh * yh + (middle >> half) + (other >> half)


def _range(kind: Scalar, is_signed: bool) -> tuple[int, int]:
    return (
        (-(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1) - 1) if is_signed else (0, 2**kind.bits - 1)
    )


_MADE: dict[str, Callable[..., Array]] = {
    "addi": lambda x, y: x + y,
    "subi": lambda x, y: x - y,
    "muli": lambda x, y: x * y,
    "negi": lambda x: -x,
    "shli": lambda x, y: x * 2 ** np.minimum(y, 70),
    "trunci": lambda x: x,
}
