"""Make the entry point of a SIMT kernel.

It takes the packed arguments of a launch (addresses, extents, strides, bytes of structs), and calls
the kernel's function with arrays and structs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

NAMES = {
    "bool": "boolean",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
}
"""numba's names of dtypes, by tilec's."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """An array that the entry builds from an address, extents and strides.

    Attributes:
        dtype: dtype of the elements, unless they are structs.
        rank: number of dimensions.
        written: whether the kernel may store to it.
        strides: strides in elements, None for those that a launch passes; None for a C-contiguous
            array.
        layout: structured NumPy dtype of elements that are structs.
    """

    dtype: str
    rank: int
    written: bool
    strides: tuple[int | None, ...] | None = None
    layout: np.dtype[np.void] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Scalar:
    """A value of a dtype."""

    dtype: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Struct:
    """A struct by value, laid out as a structured NumPy dtype; `align` is C's alignment."""

    layout: Any
    align: int


Argument = View | Scalar | Struct


def entry(
    function: FunctionType, arguments: Sequence[Argument], line: int, device: Any
) -> tuple[Callable[[Any], None], Any]:
    """Return the entry's function, and the type of its parameter.

    The parameter is one tuple; numba passes its elements as separate parameters. Debug information
    places the code at `line` of the kernel's file.
    """
    from numba.cuda import types

    packed = types.BaseTuple.from_types(
        [kind for argument in arguments for kind in _parts(argument)]
    )
    unpack = _unpack(arguments)

    def launched(packed: Any) -> None:
        device(*unpack(packed))

    launched.__code__ = launched.__code__.replace(
        co_filename=function.__code__.co_filename, co_firstlineno=line
    )
    return launched, packed


def inner(argument: Argument) -> Any:
    """Return numba's type of an argument inside of the kernel."""
    from numba.cuda import types
    from numba.cuda.np.numpy_support import from_dtype

    if isinstance(argument, View):
        layout = "C" if argument.strides is None else "A"
        return types.Array(_element(argument), argument.rank, layout, readonly=not argument.written)
    return (
        numba_type(argument.dtype) if isinstance(argument, Scalar) else from_dtype(argument.layout)
    )


def numba_type(dtype: str) -> Any:
    """Return numba's type of a dtype."""
    from numba.cuda import types

    return getattr(types, NAMES[dtype])


def _element(view: View) -> object:
    from numba.cuda.np.numpy_support import from_dtype

    return numba_type(view.dtype) if view.layout is None else from_dtype(view.layout)


def _parts(argument: Argument) -> list[Any]:
    """Return numba's types of the packed parts of an argument."""
    from numba.cuda import types

    if isinstance(argument, View):
        free = sum(stride is None for stride in argument.strides or ())
        numbers = [types.int64] * (argument.rank + free)
        return [types.CPointer(_element(argument)), *numbers]
    if isinstance(argument, Struct):
        return [_by_value(argument)]
    return [numba_type(argument.dtype)]


def _by_value(struct: Struct) -> Any:
    """Return a type with a struct's size and alignment, padding included."""
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import models, register_model

    class ByValue(types.Type):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(f"ByValue({struct.layout.itemsize}, {struct.align})")

    @register_model(ByValue)
    class ByValueModel(models.PrimitiveModel):  # type: ignore[misc]
        def __init__(self, manager: Any, kind: Any) -> None:
            unit, count = ir.IntType(8 * struct.align), struct.layout.itemsize // struct.align
            super().__init__(manager, kind, ir.ArrayType(unit, count))

    return ByValue()


def _unpack(arguments: Sequence[Argument]) -> Any:
    """Return an intrinsic that makes the kernel's arguments from the packed parts."""
    from numba.cuda import cgutils, types
    from numba.cuda.extending import intrinsic

    kinds = types.BaseTuple.from_types([inner(argument) for argument in arguments])

    def build(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        parts = iter(cgutils.unpack_tuple(builder, args[0]))
        values = [_value(context, builder, argument, parts) for argument in arguments]
        return context.make_tuple(builder, kinds, values)

    def unpack(_typing: Any, packed: Any) -> Any:
        return kinds(packed), build

    return intrinsic(unpack)


def _value(context: Any, builder: Any, argument: Argument, parts: Iterator[Any]) -> Any:
    """Generate code for one argument of the kernel, from the next packed parts."""
    from numba.cuda import cgutils

    if isinstance(argument, View):
        return _array(context, builder, argument, parts)
    if isinstance(argument, Struct):
        slot = cgutils.alloca_once_value(builder, next(parts))
        return builder.bitcast(slot, context.get_value_type(inner(argument)))
    return next(parts)


def _array(context: Any, builder: Any, view: View, parts: Iterator[Any]) -> Any:
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.np import arrayobj

    kind = inner(view)
    array = arrayobj.make_array(kind)(context, builder)
    address, shape = next(parts), [next(parts) for _ in range(view.rank)]
    item = context.get_constant(
        types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype))
    )
    strides = [item]
    if view.strides is None:
        for extent in reversed(shape[1:]):
            strides.insert(0, builder.mul(extent, strides[0]))
    else:
        fixed = [
            next(parts) if stride is None else context.get_constant(types.intp, stride)
            for stride in view.strides
        ]
        strides = [builder.mul(stride, item) for stride in fixed]
    # A launch's arrays are in global memory. Casting the address to that space avoids generic loads
    # and stores, which find the space at run time.
    outer = ir.PointerType(array.data.type.pointee, addrspace=1)
    arrayobj.populate_array(
        array,
        data=builder.addrspacecast(builder.addrspacecast(address, outer), array.data.type),
        shape=shape,
        strides=strides,
        itemsize=item,
        meminfo=None,
    )
    return array._getvalue()  # noqa: SLF001 - numba's only accessor of a proxy's value
