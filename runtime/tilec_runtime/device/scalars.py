"""Scalars by value: the numbers that fit a dtype, and their bytes."""

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
# The errors of packing a number that does not fit.
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
    """A small float format.

    Attributes:
        exponent, mantissa: their bits.
        largest: the largest finite value.
        infinity, nan: the codes of infinity (None for none) and NaN.
    """

    exponent: int
    mantissa: int
    largest: float
    infinity: int | None
    nan: int

    def encode(self, value: Any) -> int:
        """Return the code of a number, rounded to nearest, ties to even.

        Raises:
            OverflowError: the number exceeds the largest finite value.
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
        # A carry out of the mantissa increments the exponent, as it should.
        code = (
            steps + ((power + bias - 1) << self.mantissa) if steps >= 1 << self.mantissa else steps
        )
        return sign | code


def _encode_scale(value: Any) -> int:
    """Return the f8e8m0 code of the power of two nearest to a number; 255 is NaN.

    Powers go from 2**-127 to 2**127. Between two equally near, the upper is taken.
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
    """Return the f4e2m1 code of a number; the format has neither infinity nor NaN."""
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
    """Return the format character of a dtype (or `ptr`) in the struct module."""
    return _FORMATS[dtype]


def encoder_of(dtype: str) -> Encode | None:
    """Return the function from a number to a small float's code, or None."""
    return _SMALL.get(dtype)


def packed_format(kind: str, size: int = 0) -> str:
    """Return the format of a scalar: of the struct module, or a small float's name.

    The format of a struct is its size, as in `16s`.
    """
    return (
        f"{size}s"
        if kind == "struct"
        else kind
        if encoder_of(kind) is not None
        else format_of(kind)
    )


def encoded(format_: str, value: Any) -> bytes:
    """Return the bytes of one scalar.

    Raises:
        struct.error, OverflowError, TypeError, ValueError: the value does not fit.
    """
    if numpy_dtype(value) == "bool":
        value = bool(value)  # a Python bool packs as an integer too, a NumPy one does not
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
    """Whether a value is a Python number or a NumPy scalar.

    Tensors of one element are not: reading them would wait for the device.
    """
    return isinstance(value, bool | int | float) or _is_numpy(value)


def numpy_dtype(value: Any) -> str:
    """Return NumPy's name of a NumPy scalar's dtype, or an empty string."""
    return str(value.dtype) if _is_numpy(value) else ""


def refusal(value: Any, dtype: str) -> str:
    """Return why a number cannot be passed as `dtype`, or an empty string if it can."""
    kind = DTYPES[dtype].kind
    plain = value.item() if _is_numpy(value) else value
    if kind == "bool":
        return "" if isinstance(plain, bool) else f"takes a bool, got {shown(value)}"
    if kind in ("int", "uint") and not isinstance(plain, int):
        return f"takes an integer ({dtype}), got {value!r}"
    try:
        if isinstance(plain, str | bytes):  # from NumPy; `float` would parse the text
            raise TypeError
        encoded(packed_format(dtype), plain)
    except MISFITS:
        return f"is {shown(value)}, which {dtype} cannot hold{_bounds(dtype)}"
    return ""


def is_whole(value: Any) -> bool:
    """Whether a value is an integer of Python or NumPy; bools and arrays are not."""
    if isinstance(value, bool) or numpy_dtype(value) == "bool":  # older NumPy bools have an index
        return False
    try:
        operator.index(value)
    except TypeError:  # no `__index__`, or that of an array, which raises
        return False
    return True


def whole(subject: str, value: Any, raised: type[TilecError] = CallError) -> int:
    """Return an integer of Python or NumPy as a Python int.

    Args:
        subject: the value's name, with which the message begins: `eye: rows`.
        value: the value.
        raised: the class of the error.

    Raises:
        TilecError: the value is not an integer.
    """
    if not is_whole(value):
        raise raised(f"{subject} is {shown(value)}, and must be a whole number")
    return operator.index(value)


def require_kind(
    caller: str, noun: str, given: object, kind: type | tuple[type, ...], fix: str
) -> None:
    """Check the type of an argument: `caller` takes a `noun`.

    Raises:
        CallError: the argument has another type.
    """
    if not isinstance(given, kind):
        raise CallError(f"{caller} takes {noun}, got a {type(given).__qualname__}", fix=fix)


def byte_count(subject: str, value: Any) -> int:
    """Return a size in bytes as a Python int.

    Args:
        subject: the value's name, with which the message begins: `trim: keep`.
        value: the value.

    Raises:
        CallError: the value is not an integer, or is negative.
    """
    if not is_whole(value) or value < 0:
        raise CallError(
            f"{subject} is {shown(value)}, and must be a whole number of bytes that is not negative"
        )
    return operator.index(value)


def bare(handle: Any) -> Any:
    """Return the number of an address or handle of the driver's bindings.

    Any other object is returned unchanged. The bindings wrap such numbers in `CUdeviceptr`,
    `CUdevice` and others.
    """
    kind = type(handle)
    return int(handle) if hasattr(kind, "__int__") and not hasattr(kind, "__float__") else handle


def handle_number(handle: object, noun: str, fix: str) -> int:
    """Return the number of a driver's handle that another library holds.

    Raises:
        CallError: the object is not a handle of a `noun`.
    """
    try:
        return operator.index(bare(handle))
    except TypeError as error:
        raise CallError(f"{handle!r} is no handle of {noun}", fix=fix) from error


def shown(value: object) -> str:
    """Return a value as text for a message.

    Python refuses to write integers with thousands of digits; describe them instead.
    """
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
