"""Makes the inputs of a case: seeded NumPy arrays and scalars, equal on every machine."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilec.case.cases import BoundCase
from tilec.case.files import FORMS, UnfitError, parse_array_file, read_array
from tilec.case.functions import Functions
from tilec.manifest.types import Input
from tilec.model.array_facts import ArrayFacts
from tilec_runtime.errors import CaseError, ExpressionError
from tilec_runtime.model import expr
from tilec_runtime.model.dtype import BY_NUMPY, DTYPES, DType
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.tensors.host import numpy_dtype

Array = np.ndarray[Any, np.dtype[Any]]
Env = dict[str, Any]
Value = Array | int | float | bool

POISON = 0xCB
# NumPy counts the bytes of an array in 64 bits.
MOST_ELEMENTS = (2**63 - 1) // 8


def make_inputs(case: BoundCase) -> dict[str, Value]:
    """Return every input of a case by name, in order; tensors are C-contiguous.

    `normal` is N(0, 1); `uniform` is [low, high), by default [0, 1); `integers` is [low, high), by
    default [0, 100); `sorted` is `integers` in ascending order along the last dimension;
    `permutation` is the numbers from 0 in random order, and `arange` in C order; `empty` is poisoned with NaN or, for dtypes
    without NaN, with 0xCB bytes. Float scalars are rounded to the kernel's dtype, so that kernel
    and reference see one value.

    Raises:
        CaseError: a shape or distribution is impossible, or memory is short; or the case's own
            error.
    """
    if case.error is not None:
        raise case.error
    values: dict[str, Value] = {}
    env: Env = dict(case.known)
    functions = Functions(case.root)
    for item in case.inputs:
        if item.file:
            values[item.name] = _read(case, item)
        elif item.make:
            values[item.name] = _made(case, item, functions, values, env)
        elif item.shape is None:
            values[item.name] = _scalar(case, item)
        else:
            values[item.name] = _tensor(case, item, _shape(case, item, env))
        env[item.name] = facts_of(values[item.name])
    return values


def planned_inputs(case: BoundCase) -> Env:
    """Return the values that expressions of a case may read, without arrays where possible.

    If an input comes from a file or a function, all arrays are made, since only these give shapes.


    Raises:
        CaseError: as `make_inputs`.
    """
    env: Env = dict(case.known)
    if any(item.file or item.make for item in case.inputs):
        return environment(case, make_inputs(case))
    for item in case.inputs:
        if item.shape is None:
            env[item.name] = _scalar(case, item)
            continue
        env[item.name] = ArrayFacts(shape=_shape(case, item, env), dtype=item.dtype)
    return env


def environment(case: BoundCase, inputs: Mapping[str, Value]) -> Env:
    """Return what expressions of a case see: its axes and inputs."""
    return {**dict(case.known), **{name: facts_of(value) for name, value in inputs.items()}}


def facts_of(value: Value) -> ArrayFacts | int | float | bool:
    """Return an array's facts; a scalar as it is."""
    if not isinstance(value, np.ndarray):
        return value
    return ArrayFacts(shape=value.shape, dtype=BY_NUMPY[value.dtype.name].name)


def read_only(value: Value) -> Value:
    """Return an array as a view that refuses stores; a scalar as it is."""
    if not isinstance(value, np.ndarray):
        return value
    view: Array = value.view()
    view.flags.writeable = False
    return view


def poisoned(shape: tuple[int, ...], dtype: DType) -> Array:
    """Return an array whose elements look wrong until a kernel writes them."""
    if dtype.name == "bool":
        return np.ones(shape, np.bool_)
    if dtype.packed:
        return np.full(shape, (1 << dtype.bits) - 1, np.uint8).view(numpy_dtype(dtype.name))
    if dtype.kind == "float":
        return np.full(shape, np.nan, np.float32).astype(numpy_dtype(dtype.name))
    return (
        np.full((*shape, dtype.bytes), POISON, np.uint8)
        .view(numpy_dtype(dtype.name))
        .reshape(shape)
    )


def _shape(case: BoundCase, item: Input, env: Env) -> tuple[int, ...]:
    extents = []
    for axis, text in enumerate(item.shape or ()):
        try:
            value = expr.parse(text).evaluate(env)
        except ExpressionError as error:
            raise _error(case, item, f"shape[{axis}] = {text!r}: {error.what}") from error
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            message = f"shape[{axis}] = {text!r} is {value!r}"
            raise _error(case, item, f"{message}: an extent is a whole number of at least 0")
        extents.append(value)
    return tuple(extents)


def _tensor(case: BoundCase, item: Input, shape: tuple[int, ...]) -> Array:
    dtype = DTYPES[item.dtype]
    size = f"an array of shape {list(shape)} ({math.prod(shape) * dtype.bytes} bytes)"
    too_large = _error(case, item, f"{size} does not fit in memory")
    if math.prod(max(extent, 1) for extent in shape) > MOST_ELEMENTS:
        raise too_large
    try:
        return _filled(case, item, shape, dtype).astype(numpy_dtype(dtype.name), copy=False)
    except MemoryError as error:
        raise too_large from error


def _made(
    case: BoundCase,
    item: Input,
    functions: Functions,
    values: Mapping[str, Value],
    env: Env,
) -> Array:
    """Return the value that a function of the project makes."""
    dtype = numpy_dtype(item.dtype)
    shape = None if item.shape is None else _shape(case, item, env)
    more = {**dict(case.known), "shape": shape, "dtype": dtype, "seed": _seed(item)}
    before = {name: read_only(value) for name, value in values.items()}
    result = functions.call(case, item.make, ("inputs", item.name), before, more)
    array = np.asarray(result)
    if array.dtype.fields is not None:  # an array of structs is its bytes
        array = array[..., np.newaxis].view(np.uint8)
    if array.dtype != dtype or (shape is not None and array.shape != shape):
        wanted = f"{dtype}{'' if shape is None else list(shape)}"
        message = f"{item.make} returned {array.dtype}{list(array.shape)}, and {wanted} is taken"
        raise _error(case, item, message)
    # A copy: the value may be an earlier input, or a view of one.
    return np.array(array, dtype, order="C")


def _seed(item: Input) -> int:
    """Return an input's own seed, or one of its name.

    With one seed for all, inputs of a shape were equal, an output equalled an input before the run,
    and a kernel that mixed them up passed.
    """
    return zlib.crc32(item.name.encode()) if item.seed is None else item.seed


def _filled(case: BoundCase, item: Input, shape: tuple[int, ...], dtype: DType) -> Array:
    """Return the elements of an input, maybe in a wider dtype."""
    rng = np.random.Generator(np.random.PCG64(_seed(item)))
    wide = np.float64 if dtype.bits > 32 else np.float32
    if item.dist in ("normal", "uniform") and dtype.kind != "float":
        message = f'dist = "{item.dist}" makes fractions, and the dtype is {dtype}'
        raise _error(case, item, f'{message}: use dist = "integers", or "empty" for an output')
    match item.dist:
        case "normal":
            return rng.standard_normal(shape, wide)
        case "uniform":
            low, high = _bounds(case, item, 0.0, 1.0)
            unit: Array = rng.random(shape, wide)
            unit *= high - low
            unit += low
            return unit
        case "sorted":
            return np.sort(_integers(case, item, shape, dtype, rng), axis=-1)
        case "permutation":
            return rng.permutation(math.prod(shape)).reshape(shape)
        case "constant":
            return np.full(shape, item.value)
        case "integers":
            return _integers(case, item, shape, dtype, rng)
        case "zeros":
            return np.zeros(shape, numpy_dtype(dtype.name))
        case "ones":
            return np.ones(shape, numpy_dtype(dtype.name))
        case "arange":
            return np.arange(math.prod(shape)).reshape(shape)
    return poisoned(shape, dtype)  # "empty"


def _integers(
    case: BoundCase, item: Input, shape: tuple[int, ...], dtype: DType, rng: np.random.Generator
) -> Array:
    low, high = _bounds(case, item, 0, 2 if dtype.kind == "bool" else 100)
    first, last = math.ceil(low), math.ceil(high) - 1
    if last < first:
        raise _error(case, item, f"no whole number lies in [{low}, {high})")
    if dtype.kind not in ("int", "uint"):
        return rng.integers(first, last, shape, np.int64, endpoint=True)
    limits = np.iinfo(dtype.numpy)
    if first < limits.min or last > limits.max:
        holds = f"which holds {limits.min} to {limits.max}"
        raise _error(case, item, f"[{low}, {high}) goes beyond {dtype}, {holds}")
    return rng.integers(first, last, shape, dtype.numpy, endpoint=True)


def _bounds(case: BoundCase, item: Input, low: float, high: float) -> tuple[float, float]:
    lowest = low if item.low is None else item.low
    highest = high if item.high is None else item.high
    if not lowest < highest:
        raise _error(case, item, f"low = {lowest} is not below high = {highest}")
    return lowest, highest


def _scalar(case: BoundCase, item: Input) -> int | float | bool:
    value: AxisValue | None = item.value
    dtype = DTYPES.get(item.dtype)
    if value is None or isinstance(value, str):
        raise _error(case, item, f"{value!r} is neither a number nor a table with a shape")
    if dtype is None:
        return value
    if dtype.kind == "float":
        return float(
            np.asarray(value, np.float64).astype(numpy_dtype(dtype.name)).astype(np.float64)
        )
    if dtype.kind == "bool":
        return bool(value)
    if problem := misfit(value, dtype):
        raise _error(case, item, problem)
    return int(value)


def misfit(value: float, dtype: DType) -> str:
    """Return why a dtype of integers cannot hold a number, or an empty string.

    It is empty for dtypes of other kinds.
    """
    if dtype.kind not in ("int", "uint"):
        return ""
    if not math.isfinite(value) or int(value) != value:
        return f"{value!r} is not an integer, and {dtype} holds only integers"
    limits = np.iinfo(dtype.numpy)
    if limits.min <= int(value) <= limits.max:
        return ""
    return f"{value!r} does not fit {dtype}, which holds {limits.min} to {limits.max}"


def _read(case: BoundCase, item: Input) -> Array:
    dtype = numpy_dtype(case.dtype_of(item.name))
    file = parse_array_file(item.file, cwd=Path(case.root))
    try:
        return read_array(file, item.name, dtype)
    except UnfitError as error:
        message = f"{case.name}: {item.name} cannot be read from {file}: {error}"
        location = case.location_of("inputs", item.name)
        raise CaseError(message, fix=f"give {FORMS}", location=location) from error


def _error(case: BoundCase, item: Input, message: str) -> CaseError:
    location = case.location_of("inputs", item.name)
    return CaseError(f"{case.name}: inputs.{item.name}: {message}", location=location)
