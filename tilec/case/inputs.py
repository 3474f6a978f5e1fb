"""Inputs of a case: seeded NumPy arrays and scalars, the same on every machine."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilec.case.cases import BoundCase
from tilec.case.files import FORMS, UnfitError, parse_place, read_array
from tilec.manifest.types import Input
from tilec_runtime.errors import CaseError, ExpressionError, MissingError
from tilec_runtime.model import expr
from tilec_runtime.model.dtype import BY_NUMPY, DTYPES, DType
from tilec_runtime.model.kernel import AxisValue

Array = np.ndarray[Any, np.dtype[Any]]
Value = Array | int | float | bool

DISTRIBUTIONS = ("normal", "uniform", "integers", "zeros", "ones", "arange", "empty")
POISON = 0xCB
MOST_ELEMENTS = (
    2**63 - 1
) // 8  # NumPy counts an array's bytes in 64 bits, and raises a ValueError beyond


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TensorFacts:
    """What expressions read of a tensor: extents and strides in elements, `nbytes` in bytes."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    size: int
    nbytes: int
    dtype: str


def make_inputs(case: BoundCase) -> dict[str, Value]:
    """Every input of a case by name, in the order of its inputs; tensors are C-contiguous.

    `normal` is N(0, 1); `uniform` is [low, high), by default [0, 1); `integers` is [low, high) too,
    by default [0, 100); `arange` counts from 0 in C order; `empty` is poisoned, with NaN or, where
    the dtype has none, with 0xCB bytes. Float scalars are rounded to the kernel's dtype, so that
    kernel and reference see one value.

    Raises:
        CaseError: a shape or distribution that cannot be made, or more memory than there is; or the
            case's own error.
        MissingError: a dtype needs ml_dtypes, and it is not installed.
    """
    if case.error is not None:
        raise case.error
    made: dict[str, Value] = {}
    env: dict[str, Any] = dict(case.axes)
    for name, path in case.files:
        made[name] = _read(case, name, path)
        env[name] = facts_of(made[name])
    for item in case.inputs:
        made[item.name] = (
            _tensor(case, item, env) if item.shape is not None else _scalar(case, item)
        )
        env[item.name] = facts_of(made[item.name])
    return made


def planned_inputs(case: BoundCase) -> dict[str, Any]:
    """What expressions over a case see, without its arrays being made: those may be larger than
    this machine.

    Raises:
        CaseError: as `make_inputs`; or an input is read from a file.
    """
    env: dict[str, Any] = dict(case.axes)
    if case.files:
        raise CaseError(f"{case.name}: its inputs are in files", location=case.location)
    for item in case.inputs:
        if item.shape is None:
            env[item.name] = _scalar(case, item)
            continue
        dtype = DTYPES[item.dtype]
        shape = tuple(_extent(case, item, axis, text, env) for axis, text in enumerate(item.shape))
        stride = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
        size = math.prod(shape)
        env[item.name] = TensorFacts(
            shape=shape, stride=stride, size=size, nbytes=dtype.size_of(size), dtype=dtype.name
        )
    return env


def environment(case: BoundCase, inputs: Mapping[str, Value]) -> dict[str, Any]:
    """What expressions over a case see: its axes and inputs."""
    return {**dict(case.axes), **{name: facts_of(value) for name, value in inputs.items()}}


def facts_of(value: Value) -> TensorFacts | int | float | bool:
    """A tensor's facts; a scalar is its own."""
    if not isinstance(value, np.ndarray):
        return value
    dtype = BY_NUMPY[value.dtype.name]
    stride = tuple(s // value.itemsize for s in value.strides)
    return TensorFacts(
        shape=value.shape,
        stride=stride,
        size=value.size,
        nbytes=dtype.size_of(value.size),
        dtype=dtype.name,
    )


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """NumPy's dtype, from ml_dtypes where NumPy has none.

    Raises:
        MissingError: ml_dtypes is needed and not installed.
    """
    if hasattr(np, dtype.numpy):
        return np.dtype(dtype.numpy)
    try:
        import ml_dtypes
    except ImportError as error:
        fix = "python -m pip install ml_dtypes"
        raise MissingError(
            f"arrays of dtype {dtype} need the package ml_dtypes: NumPy has no such dtype", fix=fix
        ) from error
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype.numpy))
    return found


def poisoned(shape: tuple[int, ...], dtype: DType) -> Array:
    """An array that a kernel must write: NaN, 0xCB bytes where the dtype has no NaN, or all bits of
    elements that share bytes.
    """
    if dtype.name == "bool":
        return np.ones(shape, np.bool_)
    if dtype.packed:
        return np.full(shape, (1 << dtype.bits) - 1, np.uint8).view(numpy_dtype(dtype))
    if dtype.kind == "float":
        return np.full(shape, np.nan, np.float32).astype(numpy_dtype(dtype))
    return np.full((*shape, dtype.bytes), POISON, np.uint8).view(numpy_dtype(dtype)).reshape(shape)


def _tensor(case: BoundCase, item: Input, env: Mapping[str, Any]) -> Array:
    dtype = DTYPES[item.dtype]
    shape = tuple(
        _extent(case, item, axis, text, env) for axis, text in enumerate(item.shape or ())
    )
    make = _MAKERS.get(item.dist)
    if make is None:
        raise _error(
            case, item, f"unknown dist {item.dist!r}; there are {', '.join(DISTRIBUTIONS)}"
        )
    too_large = f"an array of shape {list(shape)} ({math.prod(shape) * dtype.bytes} bytes) does not fit in memory"
    if math.prod(max(extent, 1) for extent in shape) > MOST_ELEMENTS:
        raise _error(case, item, too_large)
    rng = np.random.Generator(np.random.PCG64(item.seed))
    try:
        return make(case, item, shape, dtype, rng)
    except MemoryError as error:
        raise _error(case, item, too_large) from error


def _extent(case: BoundCase, item: Input, axis: int, text: str, env: Mapping[str, Any]) -> int:
    try:
        value = expr.parse(text).evaluate(env)
    except ExpressionError as error:
        raise _error(case, item, f"shape[{axis}] = {text!r}: {error.what}") from error
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _error(
            case,
            item,
            f"shape[{axis}] = {text!r} is {value!r}: an extent is a whole number of at least 0",
        )
    return value


def _scalar(case: BoundCase, item: Input) -> int | float | bool:
    value: AxisValue | None = item.value
    dtype = DTYPES.get(item.dtype)
    if value is None or isinstance(value, str):
        raise _error(case, item, f"{value!r} is neither a number nor a table with a shape")
    if dtype is None:
        return value
    if dtype.kind == "float":
        return float(np.asarray(value, np.float64).astype(numpy_dtype(dtype)).astype(np.float64))
    if dtype.kind == "bool":
        return bool(value)
    if int(value) != value:
        raise _error(case, item, f"{value!r} is no whole number, and the kernel takes {dtype}")
    limits = np.iinfo(dtype.numpy)
    if not limits.min <= int(value) <= limits.max:
        raise _error(
            case, item, f"{value!r} does not fit {dtype}, which holds {limits.min} to {limits.max}"
        )
    return int(value)


def _normal(
    case: BoundCase, item: Input, shape: tuple[int, ...], dtype: DType, rng: np.random.Generator
) -> Array:
    _needs_float(case, item, dtype)
    return rng.standard_normal(shape, np.float64 if dtype.bits > 32 else np.float32).astype(
        numpy_dtype(dtype), copy=False
    )


def _uniform(
    case: BoundCase, item: Input, shape: tuple[int, ...], dtype: DType, rng: np.random.Generator
) -> Array:
    _needs_float(case, item, dtype)
    low, high = _bounds(case, item, 0.0, 1.0)
    unit: Array = rng.random(shape, np.float64 if dtype.bits > 32 else np.float32)
    unit *= high - low
    unit += low
    return unit.astype(numpy_dtype(dtype), copy=False)


def _integers(
    case: BoundCase, item: Input, shape: tuple[int, ...], dtype: DType, rng: np.random.Generator
) -> Array:
    low, high = _bounds(case, item, 0, 2 if dtype.kind == "bool" else 100)
    first, last = math.ceil(low), math.ceil(high) - 1
    if last < first:
        raise _error(case, item, f"no whole number lies in [{low}, {high})")
    if dtype.kind in ("int", "uint"):
        limits = np.iinfo(dtype.numpy)
        if first < limits.min or last > limits.max:
            raise _error(
                case,
                item,
                f"[{low}, {high}) goes beyond {dtype}, which holds {limits.min} to {limits.max}",
            )
        return rng.integers(first, last, shape, dtype.numpy, endpoint=True)
    return rng.integers(first, last, shape, np.int64, endpoint=True).astype(numpy_dtype(dtype))


def _needs_float(case: BoundCase, item: Input, dtype: DType) -> None:
    if dtype.kind != "float":
        raise _error(
            case,
            item,
            f'dist = "{item.dist}" makes fractions, and the dtype is {dtype}: use dist = "integers"',
        )


def _bounds(case: BoundCase, item: Input, low: float, high: float) -> tuple[float, float]:
    lowest, highest = (
        low if item.low is None else item.low,
        high if item.high is None else item.high,
    )
    if not lowest < highest:
        raise _error(case, item, f"low = {lowest} is not below high = {highest}")
    return lowest, highest


_MAKERS: dict[
    str, Callable[[BoundCase, Input, tuple[int, ...], DType, np.random.Generator], Array]
] = {
    "normal": _normal,
    "uniform": _uniform,
    "integers": _integers,
    "zeros": lambda _case, _item, shape, dtype, _rng: np.zeros(shape, numpy_dtype(dtype)),
    "ones": lambda _case, _item, shape, dtype, _rng: np.ones(shape, numpy_dtype(dtype)),
    "arange": lambda _case, _item, shape, dtype, _rng: (
        np.arange(math.prod(shape)).astype(numpy_dtype(dtype)).reshape(shape)
    ),
    "empty": lambda _case, _item, shape, dtype, _rng: poisoned(shape, dtype),
}


def _read(case: BoundCase, name: str, text: str) -> Array:
    param = next(p for p in case.params if p.name == name)
    try:
        return read_array(parse_place(text, cwd=Path()), name, numpy_dtype(DTYPES[param.dtype]))
    except UnfitError as error:
        raise CaseError(
            f"{case.name}: {name} cannot be read from {text}: {error}", fix=f"give {FORMS}"
        ) from error


def _error(case: BoundCase, item: Input, what: str) -> CaseError:
    return CaseError(
        f"{case.name}: inputs.{item.name}: {what}", location=case.place("inputs", item.name)
    )
