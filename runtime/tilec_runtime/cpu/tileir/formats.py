"""Floating point formats, and conversions of storage and compute types."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np

from tilec_runtime.cpu.tileir.exact import directed, odd, odd_float32
from tilec_runtime.cpu.tileir.ir import Rounding, Scalar
from tilec_runtime.cpu.tileir.values import STORAGE, Array

_ELEMENTS = 1 << 15  # a quarter of a MiB in float64


def chunked(function: Callable[..., Array]) -> Callable[..., Array]:
    """Apply an elementwise function in chunks of rows, which fit the cache."""

    def run(*tiles: Array) -> Array:
        shape = np.broadcast_shapes(*[held.shape for held in tiles])
        rows = shape[0]
        together = max(1, _ELEMENTS * rows // max(1, math.prod(shape)))
        if together >= rows:
            return function(*tiles)
        result: Array | None = None
        for start in range(0, rows, together):
            part = slice(start, start + together)
            computed = function(*[held[part] if held.shape[0] > 1 else held for held in tiles])
            if result is None:
                result = np.empty(shape, computed.dtype)
            result[part] = computed
        assert result is not None
        return result

    return run


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """The properties of a floating point format.

    Attributes:
        digits: significant bits, including the leading one.
        lowest: exponent of the smallest normal number.
        largest: largest finite number.
        signed: whether it has negative numbers.
        zero: whether it has zero and subnormal numbers.
        infinite: whether an overflow gives infinity; otherwise it gives the largest number, like
            the hardware's conversions.
        nan: whether it has a NaN.
    """

    digits: int
    lowest: int
    largest: float
    signed: bool = True
    zero: bool = True
    infinite: bool = True
    nan: bool = True


FORMATS: dict[Scalar, Format] = {
    Scalar.F16: Format(digits=11, lowest=-14, largest=65504.0),
    Scalar.BF16: Format(digits=8, lowest=-126, largest=(2 - 2.0**-7) * 2.0**127),
    Scalar.TF32: Format(digits=11, lowest=-126, largest=(2 - 2.0**-10) * 2.0**127),
    Scalar.F32: Format(digits=24, lowest=-126, largest=(2 - 2.0**-23) * 2.0**127),
    Scalar.F64: Format(digits=53, lowest=-1022, largest=float(np.finfo(np.float64).max)),
    Scalar.F8E4M3FN: Format(digits=4, lowest=-6, largest=448.0, infinite=False),
    Scalar.F8E5M2: Format(digits=3, lowest=-14, largest=57344.0, infinite=False),
    Scalar.F8E8M0FNU: Format(
        digits=1, lowest=-127, largest=2.0**127, signed=False, zero=False, infinite=False
    ),
    Scalar.F8E5M3FNU: Format(
        digits=4, lowest=-14, largest=1.75 * 2.0**16, signed=False, infinite=False
    ),
    Scalar.F4E2M1FN: Format(digits=2, lowest=0, largest=6.0, infinite=False, nan=False),
}
_SMALL = frozenset(
    element
    for element, form in FORMATS.items()
    if STORAGE[element].itemsize == 1 and form.digits <= 4
)
_BELOW_FLOAT32 = frozenset(element for element, form in FORMATS.items() if form.digits <= 11)
_INEXACT = 0xFFFF  # low bits of a float32 that a bfloat16 lacks


def widen(held: Array, element: Scalar) -> Array:
    """Convert a stored tile to float64 for f64, else to float32.

    The result may be the same array.
    """
    if held.dtype == np.float32 or held.dtype == np.float64:
        return held
    if element in _SMALL:
        return np.take(_decoded(element), held.view(np.uint8))
    if element is Scalar.F16:
        return np.take(_halves(), held.view(np.uint16))  # twice as fast as NumPy's conversion
    return held.astype(np.float32)


def narrow(wide: Array, element: Scalar, rounding: Rounding = Rounding.NEAREST_EVEN) -> Array:
    """Round float32 or float64 numbers once to a type; may return the same array."""
    if wide.dtype == np.float64 and element in _BELOW_FLOAT32:
        wide = odd_float32(wide)
    if element in _SMALL:
        # Eight digits rounded to odd decide any rounding to six or fewer digits.
        bits = np.ascontiguousarray(wide).view(np.uint32)
        short = (bits >> np.uint32(16)).astype(np.uint16)
        short |= (bits & np.uint32(_INEXACT)) != 0
        return np.take(_encoded(element, rounding), short).view(STORAGE[element])
    if rounding is Rounding.NEAREST_EVEN:
        if element in (Scalar.F32, Scalar.F64):
            return wide.astype(STORAGE[element], copy=False)
        if element is Scalar.F16:
            return _to_half(wide)
        return _to_tf32(wide) if element is Scalar.TF32 else wide.astype(STORAGE[element])
    if element is Scalar.F64 or (element is Scalar.F32 and wide.dtype == np.float32):
        return wide.astype(STORAGE[element], copy=False)
    return _stored(rounded(wide.astype(np.float64, copy=False), element, rounding), element)


def round_exact(nearest: Array, error: Array, element: Scalar, rounding: Rounding) -> Array:
    """Round exact numbers, float64 numbers plus errors of the right signs, once to a type."""
    if element is Scalar.F64:
        return directed(nearest, error, rounding)
    return narrow(odd(nearest, error), element, rounding)


def rounded(exact: Array, element: Scalar, rounding: Rounding) -> Array:
    """Round float64 numbers to those of a type.

    Overflow gives infinity or the largest number.
    """
    form = FORMATS[element]
    exact = exact if form.signed else np.abs(exact)  # the hardware drops the sign first
    _, exponents = np.frexp(exact)
    steps = np.maximum(exponents - form.digits, form.lowest - form.digits + 1)
    # Scale so that the last digit has the value 1. `ldexp` is exact for subnormal numbers too.
    whole = _integral(np.ldexp(exact, -steps), rounding)
    result = np.ldexp(whole, steps)
    finite = np.isfinite(exact)
    over = finite & (np.abs(result) > form.largest)
    if over.any():
        result[over] = (
            np.copysign(form.largest, exact[over])
            if not form.infinite
            else _overflow(exact[over], form, rounding)
        )
    return _special(result, exact, form)


def _special(result: Array, exact: Array, form: Format) -> Array:
    """Replace NaN, infinities and zero in formats that lack them."""
    if not form.infinite:
        result = np.where(np.isinf(exact), np.copysign(form.largest, exact), result)
    if not form.zero:
        result = np.maximum(result, 2.0**form.lowest)
    return np.where(np.isnan(exact), np.nan if form.nan else form.largest, result)


def _integral(scaled: Array, rounding: Rounding) -> Array:
    match rounding:
        case Rounding.ZERO | Rounding.NEAREST_INT_TO_ZERO:
            return np.trunc(scaled)
        case Rounding.NEGATIVE_INF:
            return np.floor(scaled)
        case Rounding.POSITIVE_INF:
            return np.ceil(scaled)
        case Rounding.NEAREST_AWAY:
            down = np.trunc(scaled)
            return down + np.where(
                np.abs(scaled - down) >= 0.5, np.copysign(1.0, scaled), np.copysign(0.0, scaled)
            )
        case Rounding.NEAREST_EVEN | Rounding.APPROX | Rounding.FULL:
            return np.rint(scaled)


def _overflow(exact: Array, form: Format, rounding: Rounding) -> Array:
    """Return the rounding of finite numbers beyond the largest: it or an infinity."""
    negative = exact < 0
    match rounding:
        case Rounding.ZERO | Rounding.NEAREST_INT_TO_ZERO:
            infinite = np.zeros(exact.shape, np.bool_)
        case Rounding.NEGATIVE_INF:
            infinite = negative
        case Rounding.POSITIVE_INF:
            infinite = ~negative
        case _:
            infinite = np.ones(exact.shape, np.bool_)
    return np.copysign(np.where(infinite, np.inf, form.largest), exact)


def _to_tf32(wide: Array) -> Array:
    """Round float32 to the nearest number with 11 digits, ties to even."""
    bits = np.ascontiguousarray(wide).view(np.uint32)
    result = bits + np.uint32(0xFFF)
    result += (bits >> np.uint32(13)) & np.uint32(1)
    result &= np.uint32(0xFFFFE000)
    special = (bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
    if special.any():
        result[special] = bits[special]
    return result.view(np.float32)


def _to_half(wide: Array) -> Array:
    """Round float32 to the nearest float16, ties to even.

    NumPy's conversion takes up to a hundred times as long for subnormal numbers.
    """
    bits = np.ascontiguousarray(wide).view(np.uint32)
    size = bits & np.uint32(0x7FFFFFFF)
    result = size >> np.uint32(13)
    result &= np.uint32(1)
    result += size
    result += np.uint32(0xC8000FFF)  # lower the exponent's bias by 112, add half of the last place
    result >>= np.uint32(13)
    # For subnormal float16 numbers: the last place of 0.5 in float32 is the smallest float16
    # number, so that adding 0.5 rounds correctly.
    tiny = (size.view(np.float32) + np.float32(0.5)).view(np.uint32)
    tiny -= np.uint32(0x3F000000)
    tiny -= result
    tiny *= size < np.uint32(0x38800000)
    result += tiny
    np.minimum(result, np.uint32(0x7C00), out=result)
    special = size > np.uint32(0x7F800000)
    if special.any():
        result[special] = np.uint32(0x7FFF)
    signs = bits >> np.uint32(16)
    signs &= np.uint32(0x8000)
    result |= signs
    return result.astype(np.uint16).view(np.float16)


def _stored(values: Array, element: Scalar) -> Array:
    """Convert float64 numbers that are exact in a type to its storage."""
    if element is not Scalar.F8E5M3FNU:
        return values.astype(STORAGE[element])
    known = _decoded(element)
    codes = np.searchsorted(known[:-1], values.astype(np.float32)).astype(np.uint8)
    codes[np.isnan(values)] = 0xFF
    return codes


@functools.cache
def _decoded(element: Scalar) -> Array:
    """Return the number of each pattern of 8 bits; types of 4 bits use the low half."""
    codes = np.arange(256, dtype=np.uint8)
    if element is Scalar.F8E5M3FNU:
        field, fraction = (codes >> 3).astype(np.int32), (codes & 7).astype(np.float64)
        values = np.where(
            field == 0, np.ldexp(fraction, -17), np.ldexp(8 + fraction, field - 18)
        ).astype(np.float32)
        values[0xFF] = np.nan
    elif element is Scalar.F4E2M1FN:
        values = (codes & 15).view(STORAGE[element]).astype(np.float32)
    else:
        values = codes.view(STORAGE[element]).astype(np.float32)
    values.flags.writeable = False
    return values


@functools.cache
def _halves() -> Array:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    values.flags.writeable = False
    return values


@functools.cache
def _encoded(element: Scalar, rounding: Rounding) -> Array:
    """Return the rounded bits of each bfloat16 number."""
    every = (
        (np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    )
    with np.errstate(all="ignore"):
        codes = _stored(rounded(every, element, rounding), element).view(np.uint8)
    if element is Scalar.F8E5M2:
        codes = np.where(np.isnan(every), np.uint8(0x7F), codes)  # the hardware's NaN
    codes.flags.writeable = False
    return codes
