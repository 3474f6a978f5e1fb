"""Functions that make tensors. Each returns a lazy op that allocates and fills."""

from __future__ import annotations

import math
from typing import Any, overload

from tilec_runtime.api.making import (
    NOT_COUNTED,
    SUPPORTED,
    Convert,
    FillIn,
    Make,
    dense,
    filled,
    known,
    real,
    sized,
)
from tilec_runtime.device.scalars import refusal, whole
from tilec_runtime.errors import CallError, TensorError
from tilec_runtime.kernels import recipes
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.tensors.described import Described, require_tensor
from tilec_runtime.tensors.tensor import Tensor

_NO_ZERO = ("f8e8m0",)
_UNKNOWN = tuple(name for name in DTYPES if name not in SUPPORTED)


def empty(shape: Any, dtype: Any = "f32") -> DeviceOp[Tensor]:
    """Return an op that makes an uninitialized tensor, to be written by another op.

    Args:
        shape: extents: an int or a tuple.
        dtype: tilec's name, or a dtype of NumPy or torch.

    Raises:
        TensorError: the shape or the dtype is not valid.
    """
    name = known("empty", dtype)
    return Make("empty", sized("empty", shape, name), name, None)


def zeros(shape: Any, dtype: Any = "f32") -> DeviceOp[Tensor]:
    """Return an op that makes a tensor of zeros.

    Args:
        shape: extents: an int or a tuple.
        dtype: tilec's name, or a dtype of NumPy or torch.

    Raises:
        TensorError: the shape or the dtype is not valid; f8e8m0 has no zero.
    """
    return _constant("zeros", shape, 0, known("zeros", dtype, but=_NO_ZERO))


def ones(shape: Any, dtype: Any = "f32") -> DeviceOp[Tensor]:
    """Return an op that makes a tensor of ones. Everything else is as for `zeros`."""
    return _constant("ones", shape, 1, known("ones", dtype))


def full(shape: Any, value: Any, dtype: Any = "f32") -> DeviceOp[Tensor]:
    """Return an op that makes a tensor filled with one value.

    Args:
        shape: extents: an int or a tuple.
        value: a number. Floats are rounded to the nearest element.
        dtype: tilec's name, or a dtype of NumPy or torch.

    Raises:
        TensorError: the shape or the dtype is not valid, or the dtype cannot hold the value.
    """
    name = known("full", dtype)
    return Make("full", sized("full", shape, name), name, filled("full", value, name))


@overload
def fill(tensor: DeviceOp[Any], value: Any) -> DeviceOp[Any]: ...
@overload
def fill(tensor: Described, value: Any) -> FillIn: ...
def fill(tensor: Any, value: Any) -> DeviceOp[Any]:
    """Return an op that sets all elements of a tensor, and returns the tensor.

    Args:
        tensor: a tensor or partition, which moves in if it is owned; a mutable borrow; or an op
            that returns one of these.
        value: a number.

    Raises:
        TensorError: `tensor` is not a tensor, its dtype cannot hold the value, or its elements have
            gaps.
        OwnershipError: it cannot be written.
    """
    if isinstance(tensor, DeviceOp):
        return tensor.then(lambda result: fill(result, value))
    require_tensor(tensor, "fill")
    if not tensor.readonly:  # `FillIn` refuses a read-only tensor; gaps do not matter then
        dense(tensor)
    return FillIn(tensor, filled("fill", value, tensor.dtype))


def arange(start: Any, stop: Any = None, step: Any = 1, *, dtype: Any = "f32") -> DeviceOp[Tensor]:
    """Return an op that makes numbers from `start` to below `stop`, `step` apart.

    With one argument, that is `stop`, and the numbers start at 0. Element i is start + i * step.
    Integer dtypes take integers and compute exactly. Float dtypes compute in f64 and round once.

    Args:
        start: the first number.
        stop: the end, which is excluded.
        step: the step, which may be negative.
        dtype: tilec's name, or a dtype of NumPy or torch; not bool.

    Raises:
        CallError: the step is 0, or an argument is not a finite number.
        TensorError: the dtype is not valid, or cannot hold an element.
    """
    name = known("arange", dtype, but=NOT_COUNTED)
    first, end = (0, start) if stop is None else (start, stop)
    given: dict[str, Any] = {
        "start": real("arange", "start", first),
        "stop": real("arange", "stop", end),
        "step": real("arange", "step", step),
    }
    begin, limit, jump = given.values()
    if jump == 0:
        raise CallError(
            "arange: the step is 0, so that the end is never reached",
            fix="pass a step that is not 0, or use full()",
        )
    floats = [key for key, number in given.items() if isinstance(number, float)]
    if floats and DTYPES[name].kind != "float":
        message = f"arange: {floats[0]} is {given[floats[0]]!r}, and {name} takes integers"
        raise CallError(message, fix="pass integers, or a float dtype")
    count = _count(begin, limit, jump)
    shape = sized("arange", count, name)
    recipe = _steps(name, begin, jump, count)
    if count:
        for number in (begin, begin + (count - 1) * jump):
            _held("arange", number, name)
    return Make("arange", shape, name, recipe)


def linspace(start: Any, stop: Any, num: Any, *, dtype: Any = "f32") -> DeviceOp[Tensor]:
    """Return an op that makes `num` evenly spaced numbers from `start` to `stop`.

    Both ends are exact. Element i is start + i * ((stop - start) / (num - 1)), computed in f64 with
    each operation rounded, and then rounded to the dtype. Integer dtypes round down.

    Args:
        start: the first number.
        stop: the last number.
        num: the number of elements; 1 only if `start` equals `stop`.
        dtype: tilec's name, or a dtype of NumPy or torch; not bool.

    Raises:
        CallError: an argument is not a finite number.
        TensorError: `num` or the dtype is not valid, or the dtype cannot hold `start` or `stop`.
    """
    name = known("linspace", dtype, but=NOT_COUNTED)
    first, last = float(real("linspace", "start", start)), float(real("linspace", "stop", stop))
    (count,) = sized("linspace", _index("linspace", "num", num), name)
    if count == 1 and first != last:
        message = f"linspace: one number cannot be both {first!r} and {last!r}"
        raise TensorError(message, fix=f"ask for two at least, or for full((1,), {first!r})")
    distance = last - first
    if not math.isfinite(distance):
        raise CallError(f"linspace: from {first!r} to {last!r} is further than f64 reaches")
    for number in (first, last) if count else ():
        _held("linspace", number if DTYPES[name].kind == "float" else math.floor(number), name)
    step = distance / (count - 1) if count > 1 else 0.0
    return Make("linspace", (count,), name, recipes.Numbers(start=first, step=step, last=last))


def eye(n: Any, columns: Any = None, dtype: Any = "f32") -> DeviceOp[Tensor]:
    """Return an op that makes a matrix of zeros with ones on its diagonal.

    Args:
        n: the number of rows.
        columns: the number of columns; None for `n`.
        dtype: tilec's name, or a dtype of NumPy or torch.

    Raises:
        TensorError: the shape or the dtype is not valid; f8e8m0 has no zero.
    """
    name = known("eye", dtype, but=(*_NO_ZERO, *_UNKNOWN))
    rows = _index("eye", "n", n)
    width = rows if columns is None else _index("eye", "columns", columns)
    shape = sized("eye", (rows, width), name)
    one = filled("eye", True if DTYPES[name].kind == "bool" else 1, name)
    recipe = recipes.Diagonal(bits=one.bits, rows=shape[0], columns=shape[1])
    return Make("eye", shape, name, recipe)


def convert(source: Any, dtype: Any) -> DeviceOp[Tensor]:
    """Return an op that makes a contiguous copy of a tensor with another dtype.

    - Numbers are rounded once, to nearest even.
    - Floats become integers by truncation towards zero. A value out of range becomes the nearest
      bound, and NaN becomes 0.
    - Integers become integers by their low bits, and bools by a comparison with 0.
    - A value out of range of a float becomes infinity, or NaN for f8e4m3 and f8e8m0. f8e8m0 has
      only powers of two; a value that is not above 0 becomes NaN.
    - f4e2m1 has neither infinity nor NaN: both, and values out of range, become its largest number,
      6.

    Args:
        source: a tensor, view, shared tensor or borrow, which is claimed for reading until the op
            has run; a tensor of another library; or an op that returns one of these.
        dtype: tilec's name, or a dtype of NumPy or torch.

    Raises:
        TensorError: `source` is not a tensor, the dtype is not valid, or its packed elements would
            not fill their bytes.
        OwnershipError: the tensor cannot be read.
    """
    name = known("convert", dtype)
    if isinstance(source, DeviceOp):
        return source.then(lambda result: convert(result, name))
    return Convert(source if isinstance(source, Described) else Tensor.from_foreign(source), name)


def _constant(function: str, shape: Any, number: int, dtype: str) -> DeviceOp[Tensor]:
    value = bool(number) if DTYPES[dtype].kind == "bool" else number
    return Make(function, sized(function, shape, dtype), dtype, filled(function, value, dtype))


def _steps(dtype: str, start: float, step: float, count: int) -> recipes.Recipe:
    if DTYPES[dtype].kind != "float":
        return recipes.Integers(start=int(start), step=int(step))
    first, jump = float(start), float(step)
    last = jump * (count - 1) + first
    return recipes.Numbers(start=first, step=jump, last=last)


def _count(start: float, stop: float, step: float) -> int:
    """Count the numbers from `start` to below `stop`."""
    if all(isinstance(number, int) for number in (start, stop, step)):
        return max(0, -int((start - stop) // step))
    steps = (stop - start) / step
    if not math.isfinite(steps):
        raise CallError(
            f"arange: from {start!r} to {stop!r} in steps of {step!r} is further than f64 reaches"
        )
    return max(0, math.ceil(steps))


def _held(function: str, number: float, dtype: str) -> None:
    """Check that a dtype can hold a number, rounded to the nearest element."""
    why = refusal(number, dtype)
    if why:
        raise TensorError(
            f"{function}: an element {why}", fix="take a wider dtype, or a smaller range"
        )


def _index(function: str, name: str, value: Any) -> int:
    return whole(f"{function}: {name}", value, TensorError)
