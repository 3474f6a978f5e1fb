"""Scalars by value: which Python numbers fit which dtype, and their bytes, small floats included."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from typing import Any

from tilec_runtime.errors import CallError, TilecError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.values import value_class

Encode = Callable[[Any], Any]
# What packing raises where a number does not fit.
MISFITS = (struct.error, OverflowError, TypeError, ValueError)

# Format character of the struct module; small floats are encoded first and packed as unsigned
# integers.
_FORMATS = {
    "bool": "?",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
    "f16": "e",
    "f32": "f",
    "f64": "d",
    "bf16": "H",
    "f8e4m3": "B",
    "f8e5m2": "B",
    "f8e8m0": "B",
    "f4e2m1": "B",
    "ptr": "Q",
}


@value_class(frozen=True)
class _SmallFloat:
    """A float format: bits of exponent and mantissa, its largest finite value, and the codes of
    infinity and NaN (None for none).
    """

    exponent: int
    mantissa: int
    largest: float
    infinity: int | None
    nan: int

    def encode(self, value: Any) -> int:
        """The code of a number, rounded to nearest, ties to even.

        Raises:
            OverflowError: it is beyond the largest finite value.
        """
        number = float(value)
        sign = (1 << (self.exponent + self.mantissa)) if math.copysign(1.0, number) < 0 else 0
        if math.isnan(number):
            return sign | self.nan
        magnitude = abs(number)
        if math.isinf(magnitude):
            if self.infinity is None:
                raise OverflowError("there is no infinity")
            return sign | self.infinity
        bias = (1 << (self.exponent - 1)) - 1
        if magnitude == 0:
            return sign
        power = max(math.frexp(magnitude)[1] - 1, 1 - bias)
        steps = round(math.ldexp(magnitude, self.mantissa - power))  # Python rounds ties to even
        if math.ldexp(steps, power - self.mantissa) > self.largest:
            raise OverflowError("too large")
        # A carry out of the mantissa lands in the exponent, which is what it means.
        code = (
            steps + ((power + bias - 1) << self.mantissa) if steps >= 1 << self.mantissa else steps
        )
        return sign | code


def _encode_scale(value: Any) -> int:
    """Code of f8e8m0: a power of two from 2**-127 to 2**127, nearest to the number, the upper one
    of two that are as near; 255 is NaN.
    """
    number = float(value)
    if math.isnan(number):
        return 255
    if not 0 < number < math.inf:
        raise OverflowError("only positive powers of two exist")
    fraction, exponent = math.frexp(number)  # from 1/2 to 1
    power = max(exponent if fraction >= 0.75 else exponent - 1, -127)
    if power > 127:
        raise OverflowError("too large")
    return power + 127


def _encode_f4(value: Any) -> int:
    """Code of f4e2m1, which has neither infinity nor NaN."""
    if math.isnan(float(value)):
        raise OverflowError("there is no NaN")
    return _SmallFloat(2, 1, 6.0, None, 0).encode(value)


_SMALL = {
    "f4e2m1": _encode_f4,
    "bf16": _SmallFloat(8, 7, math.ldexp(255, 120), 0x7F80, 0x7FC0).encode,
    "f8e4m3": _SmallFloat(4, 3, 448.0, None, 0x7F).encode,
    "f8e5m2": _SmallFloat(5, 2, 57344.0, 0x7C, 0x7F).encode,
    "f8e8m0": _encode_scale,
}


def format_of(dtype: str) -> str:
    """Format character of a dtype (or `ptr`) in the struct module."""
    return _FORMATS[dtype]


def encoder_of(dtype: str) -> Encode | None:
    """What turns a number into what its format character packs; None where that is the number
    itself.
    """
    return _SMALL.get(dtype)


def packed_format(kind: str, size: int = 0) -> str:
    """How a scalar is packed: a format of the struct module, or the name of a dtype that has none;
    of a struct, so many bytes.
    """
    return (
        f"{size}s"
        if kind == "struct"
        else kind
        if encoder_of(kind) is not None
        else format_of(kind)
    )


def encoded(format_: str, value: Any) -> bytes:
    """The bytes of one scalar.

    Raises:
        struct.error, OverflowError, TypeError, ValueError: it does not fit.
    """
    if numpy_dtype(value) == "bool":
        value = bool(value)  # an integer, as Python's is
    encode = encoder_of(format_)
    if encode is not None:
        return struct.pack(f"={format_of(format_)}", encode(value))
    if not format_.endswith("s"):
        return struct.pack(f"={format_}", value)
    data = memoryview(value).tobytes()
    if len(data) != int(format_[:-1]):  # the struct module would cut or pad it silently
        raise struct.error(f"{len(data)} bytes")
    return data


def is_number(value: object) -> bool:
    """Whether it is a Python number or a NumPy scalar; tensors of one element are not, since
    reading them would wait for the device.
    """
    return isinstance(value, bool | int | float) or _is_numpy(value)


def numpy_dtype(value: Any) -> str:
    """NumPy's name of a NumPy scalar's dtype; empty for Python numbers, which have none."""
    return str(value.dtype) if _is_numpy(value) else ""


def refusal(value: Any, dtype: str) -> str:
    """Why a number cannot be passed as `dtype`, or an empty text where it can."""
    kind = DTYPES[dtype].kind
    plain = value.item() if _is_numpy(value) else value
    if kind == "bool":
        return "" if isinstance(plain, bool) else f"takes a bool, got {shown(value)}"
    if kind in ("int", "uint") and not isinstance(plain, int):
        return f"takes an integer ({dtype}), got {value!r}"
    try:
        if isinstance(plain, str | bytes):  # of NumPy; `float` reads text
            raise TypeError
        encoded(packed_format(dtype), plain)
    except MISFITS:
        return f"is {shown(value)}, which {dtype} cannot hold{_bounds(dtype)}"
    return ""


def is_whole(value: Any) -> bool:
    """Whether it is a whole number, of Python or NumPy; a bool is none, nor is an array."""
    if isinstance(value, bool) or numpy_dtype(value) == "bool":  # older ones have an index
        return False
    try:
        operator.index(value)
    except TypeError:  # arrays have an `__index__`, which says no
        return False
    return True


def whole(what: str, value: Any, raised: type[TilecError] = CallError) -> int:
    """A whole number as one of Python.

    Args:
        what: whose it is, as the message begins: `eye: rows`.
        value: what was given.
        raised: the class of the error.

    Raises:
        TilecError: it is none.
    """
    if not is_whole(value):
        raise raised(f"{what} is {shown(value)}, and must be a whole number")
    return operator.index(value)


def require_kind(
    who: str, noun: str, given: object, kind: type | tuple[type, ...], fix: str
) -> None:
    """Check the type of an argument: `who` takes a `noun`.

    Raises:
        CallError: it is of another type; with what was given, and the next step.
    """
    if not isinstance(given, kind):
        raise CallError(f"{who} takes {noun}, got a {type(given).__qualname__}", fix=fix)


def byte_count(what: str, value: Any) -> int:
    """A size in bytes as a whole number of Python.

    Args:
        what: whose it is, as the message begins: `trim: keep`.
        value: what was given.

    Raises:
        CallError: it is none.
    """
    if not is_whole(value) or value < 0:
        raise CallError(
            f"{what} is {shown(value)}, and must be a whole number of bytes that is not negative"
        )
    return operator.index(value)


def bare(handle: Any) -> Any:
    """The number of an address or handle that the driver's bindings wrap (`CUdeviceptr`,
    `CUdevice`); anything else as it is.
    """
    kind = type(handle)
    return int(handle) if hasattr(kind, "__int__") and not hasattr(kind, "__float__") else handle


def handle_number(handle: object, noun: str, fix: str) -> int:
    """The number of a driver's handle that another library holds.

    Raises:
        CallError: it is none of a `noun`; with the next step.
    """
    try:
        return operator.index(bare(handle))
    except TypeError as error:
        raise CallError(f"{handle!r} is no handle of {noun}", fix=fix) from error


def shown(value: object) -> str:
    """A value in a message; Python itself refuses to write integers of thousands of digits."""
    return (
        f"an integer of {value.bit_length()} bits"
        if isinstance(value, int) and value.bit_length() > 2048
        else repr(value)
    )


def _bounds(dtype: str) -> str:
    row = DTYPES[dtype]
    if row.kind == "uint":
        return f" (0 to {2**row.bits - 1})"
    if row.kind == "int":
        return f" ({-(2 ** (row.bits - 1))} to {2 ** (row.bits - 1) - 1})"
    return ""


def _is_numpy(value: object) -> bool:
    return any(
        base.__name__ == "generic" and base.__module__ == "numpy" for base in type(value).__mro__
    )
