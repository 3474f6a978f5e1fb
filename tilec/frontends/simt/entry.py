"""The function that is launched for a SIMT kernel: it takes what a launch packs, and hands arrays
and structs to the kernel.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

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
"""numba's name of a dtype, by tilec's."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """An array that the entry builds of an address, extents, and the strides (in elements) that are
    not known; None is C-contiguous.
    """

    dtype: str
    rank: int
    written: bool
    strides: tuple[int | None, ...] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Scalar:
    """A value of a dtype."""

    dtype: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Struct:
    """A struct by value, laid out as a structured NumPy dtype; `align` is that of C."""

    layout: Any
    align: int


Argument = View | Scalar | Struct


def entry(
    function: FunctionType, arguments: Sequence[Argument], line: int, device: Any
) -> tuple[FunctionType, tuple[Any, ...]]:
    """Return the function that is launched, with the types of its parameters: it builds the
    arguments and calls the kernel's function.
    """
    from numba.cuda import types

    scope: dict[str, Any] = {"kernel": device, "record": _parts().record}
    names: list[str] = []
    params: list[Any] = []
    passed: list[str] = []
    for index, argument in enumerate(arguments):
        name = f"a{index}"
        names.append(name)
        if isinstance(argument, View):
            params.append(types.CPointer(numba_type(argument.dtype)))
            extents = [f"{name}n{axis}" for axis in range(argument.rank)]
            strides, extra = _strides(name, argument, extents)
            names += [*extents, *extra]
            params += [types.int64] * (argument.rank + len(extra))
            scope[f"view{index}"] = _parts().view(inner(argument))
            passed.append(f"view{index}({name}, ({', '.join(extents)},), ({', '.join(strides)},))")
        elif isinstance(argument, Struct):
            params.append(
                _parts().by_value(inner(argument), argument.layout.itemsize, argument.align)
            )
            passed.append(f"record({name})")
        else:
            params.append(numba_type(argument.dtype))
            passed.append(name)
    source = f"def entry({', '.join(names)}): kernel({', '.join(passed)})"
    file = function.__code__.co_filename
    exec(compile("\n" * (line - 1) + source, file, "exec"), scope)  # noqa: S102 - three kinds of words, all of them made above
    made: FunctionType = scope["entry"]
    return made, tuple(params)


def inner(argument: Argument) -> Any:
    """The type of an argument inside of the kernel."""
    from numba.cuda import types
    from numba.cuda.np.numpy_support import from_dtype

    if isinstance(argument, View):
        layout = "C" if argument.strides is None else "A"
        return types.Array(
            numba_type(argument.dtype), argument.rank, layout, readonly=not argument.written
        )
    return (
        numba_type(argument.dtype) if isinstance(argument, Scalar) else from_dtype(argument.layout)
    )


def numba_type(dtype: str) -> Any:
    """numba's type of a dtype."""
    from numba.cuda import types

    return getattr(types, NAMES[dtype])


def _strides(name: str, view: View, extents: Sequence[str]) -> tuple[list[str], list[str]]:
    """(strides as expressions, parameters that they need)."""
    if view.strides is None:
        return [" * ".join(extents[axis + 1 :]) or "1" for axis in range(view.rank)], []
    given = [
        f"{name}s{axis}" if fixed is None else str(fixed) for axis, fixed in enumerate(view.strides)
    ]
    return given, [text for text, fixed in zip(given, view.strides, strict=True) if fixed is None]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Parts:
    """What entries are made of: a view's intrinsic by its type, a struct's parameter, and the
    intrinsic that reads one as a record.
    """

    view: Callable[[Any], Any]
    by_value: Callable[[Any, int, int], Any]
    record: Any


@functools.cache
def _parts() -> _Parts:
    from llvmlite import ir
    from numba.cuda import cgutils, types
    from numba.cuda.extending import intrinsic, models, register_model
    from numba.cuda.np import arrayobj

    class ByValue(types.Type):  # type: ignore[misc]
        """One parameter of a struct's size and alignment; its padding travels along."""

        def __init__(self, record: Any, size: int, align: int) -> None:
            self.record, self.size, self.align = record, size, align
            super().__init__(f"ByValue({record.name})")

    @register_model(ByValue)
    class ByValueModel(models.PrimitiveModel):  # type: ignore[misc]
        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(
                manager, kind, ir.ArrayType(ir.IntType(8 * kind.align), kind.size // kind.align)
            )

    def record(_typing: Any, value: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            slot = cgutils.alloca_once_value(builder, args[0])
            return builder.bitcast(slot, context.get_value_type(signature.return_type))

        return value.record(value), build

    def view(kind: Any) -> Any:
        def make(_typing: Any, address: Any, shape: Any, strides: Any) -> Any:
            def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                array = arrayobj.make_array(signature.return_type)(context, builder)
                item = context.get_constant(
                    types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype))
                )
                # A launch's arrays are in global memory: said here, loads and stores need not find
                # out at run time.
                outer = ir.PointerType(array.data.type.pointee, addrspace=1)
                data = builder.addrspacecast(builder.addrspacecast(args[0], outer), array.data.type)
                arrayobj.populate_array(
                    array,
                    data=data,
                    shape=cgutils.unpack_tuple(builder, args[1]),
                    strides=[
                        builder.mul(stride, item)
                        for stride in cgutils.unpack_tuple(builder, args[2])
                    ],
                    itemsize=item,
                    meminfo=None,
                )
                return array._getvalue()  # noqa: SLF001 - how a proxy gives its value

            return kind(address, shape, strides), build

        return intrinsic(make)

    return _Parts(view=view, by_value=ByValue, record=intrinsic(record))
