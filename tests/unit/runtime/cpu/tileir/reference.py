"""Floating point by fractions of whole numbers: what results must be, worked out without anything
of tilec but the names of types.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.ir import Rounding, Scalar


@dataclasses.dataclass(frozen=True)
class Layout:
    """Bits of a format: exponent, fraction, bias; `top` says what the highest exponent stands for."""

    exponent: int
    fraction: int
    bias: int
    top: str = "ieee"  # or "nan": the highest pattern alone is a NaN; or "finite"
    signed: bool = True
    saturates: bool = False


LAYOUTS = {
    Scalar.F16: Layout(5, 10, 15),
    Scalar.BF16: Layout(8, 7, 127),
    Scalar.TF32: Layout(8, 10, 127),
    Scalar.F32: Layout(8, 23, 127),
    Scalar.F64: Layout(11, 52, 1023),
    Scalar.F8E4M3FN: Layout(4, 3, 7, "nan", saturates=True),
    Scalar.F8E5M2: Layout(5, 2, 15, saturates=True),
    Scalar.F8E8M0FNU: Layout(8, 0, 127, "nan", signed=False, saturates=True),
    Scalar.F8E5M3FNU: Layout(5, 3, 15, "nan", signed=False, saturates=True),
    Scalar.F4E2M1FN: Layout(2, 1, 1, "finite", saturates=True),
}


@dataclasses.dataclass(frozen=True)
class Number:
    """A number with a sign, infinite or none at all."""

    negative: bool
    size: Fraction = Fraction(0)
    infinite: bool = False
    nan: bool = False

    @property
    def finite(self) -> bool:
        return not (self.infinite or self.nan)

    @property
    def value(self) -> Fraction:
        return -self.size if self.negative else self.size


NAN = Number(False, nan=True)


def decode(bits: int, kind: Scalar) -> Number:
    """What a pattern of bits stands for."""
    layout = LAYOUTS[kind]
    fraction = bits & ((1 << layout.fraction) - 1)
    field = bits >> layout.fraction & ((1 << layout.exponent) - 1)
    negative = layout.signed and bool(bits >> (layout.fraction + layout.exponent) & 1)
    highest = field == (1 << layout.exponent) - 1
    if highest and layout.top == "ieee":
        return NAN if fraction else Number(negative, infinite=True)
    if highest and layout.top == "nan" and fraction == (1 << layout.fraction) - 1:
        return NAN
    if kind is Scalar.F8E8M0FNU:
        return Number(False, Fraction(2) ** (field - 127))
    if field == 0:
        return Number(
            negative, Fraction(fraction) * Fraction(2) ** (1 - layout.bias - layout.fraction)
        )
    return Number(
        negative,
        (fraction + (1 << layout.fraction))
        * Fraction(2) ** (field - layout.bias - layout.fraction),
    )


def encode(number: Number, kind: Scalar, rounding: Rounding) -> int | None:
    """The pattern of what a number rounds to; None for a NaN."""
    layout = LAYOUTS[kind]
    if number.nan:
        return 0b0111 if layout.top == "finite" else None
    if not layout.signed:
        number = dataclasses.replace(number, negative=False)
    sign = int(number.negative) << (layout.fraction + layout.exponent)
    largest = _largest(layout)
    if number.infinite:
        return sign | largest if layout.saturates else sign | largest + 1
    away = {
        Rounding.ZERO: False,
        Rounding.POSITIVE_INF: not number.negative,
        Rounding.NEGATIVE_INF: number.negative,
    }
    lowest = decode(0, kind).size
    if number.size <= lowest:
        return sign
    low = _below(number.size, kind, largest)
    if low == largest:
        step = decode(largest, kind).size - decode(largest - 1, kind).size
        rest = (number.size - decode(largest, kind).size) / step
        up = rest > 0 and away[rounding] if rounding in away else rest >= Fraction(1, 2)
        return sign | largest + (1 if up and not layout.saturates else 0)
    below, above = decode(low, kind).size, decode(low + 1, kind).size
    rest = (number.size - below) / (above - below)
    if rest == 0:
        return sign | low
    if rounding in away:
        return sign | low + away[rounding]
    if rounding is Rounding.NEAREST_AWAY:
        return sign | low + (rest >= Fraction(1, 2))
    return sign | low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1))


def _largest(layout: Layout) -> int:
    every = (1 << (layout.exponent + layout.fraction)) - 1
    return {"ieee": every - (1 << layout.fraction), "nan": every - 1, "finite": every}[layout.top]


def _below(size: Fraction, kind: Scalar, largest: int) -> int:
    """The pattern of the greatest number that is not above `size`: patterns grow with the numbers."""
    layout = LAYOUTS[kind]
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    exponent = max(exponent, 1 - layout.bias if layout.fraction else -layout.bias)
    whole = size // Fraction(2) ** (exponent - layout.fraction)
    return min(whole + (exponent + layout.bias - 1 << layout.fraction), largest)


def operate(name: str, numbers: list[Number], rounding: Rounding) -> Number:
    """The exact result of an operation; a square root with enough digits for any rounding."""
    if any(number.nan for number in numbers):
        return NAN
    if not all(number.finite for number in numbers) or (name == "divf" and numbers[1].size == 0):
        return _special(name, numbers)
    down = rounding is Rounding.NEGATIVE_INF
    if name == "sqrt":
        return _root(numbers[0])
    if name in ("mulf", "divf"):
        x, y = numbers
        return Number(
            x.negative != y.negative, x.size * y.size if name == "mulf" else x.size / y.size
        )
    if name == "fma":
        x, y, z = numbers
        return _sum(Number(x.negative != y.negative, x.size * y.size), z, down)
    x, y = numbers
    return _sum(x, y if name == "addf" else Number(not y.negative, y.size), down)


def _sum(x: Number, y: Number, down: bool) -> Number:
    total = x.value + y.value
    if total == 0:
        # Zeros of one sign keep it; all else that is zero is positive, but for rounding down.
        same = x.size == 0 and y.size == 0 and x.negative == y.negative
        return Number(x.negative if same else down)
    return Number(total < 0, abs(total))


def _root(x: Number) -> Number:
    if x.size == 0 or x.negative:
        return NAN if x.size else x
    scaled = x.size * Fraction(2) ** 2400
    root = math.isqrt(int(scaled))
    rest = 0 if root * root == scaled else 1
    return Number(False, Fraction(2 * root + rest, 2**1201))


def _special(name: str, numbers: list[Number]) -> Number:
    """Results with infinities and divisions by zero, by what float64 does with numbers of the same
    signs.
    """
    operations: dict[str, Any] = {
        "addf": np.add,
        "subf": np.subtract,
        "mulf": np.multiply,
        "divf": np.divide,
        "sqrt": np.sqrt,
        "fma": lambda x, y, z: x * y + z,
    }
    sizes = [math.inf if number.infinite else float(number.size != 0) for number in numbers]
    plain = [
        np.float64(-size if number.negative else size)
        for size, number in zip(sizes, numbers, strict=True)
    ]
    with np.errstate(all="ignore"):
        found = operations[name](*plain)
    return NAN if np.isnan(found) else Number(bool(np.signbit(found)), infinite=np.isinf(found))
