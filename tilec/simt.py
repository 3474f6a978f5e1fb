"""SIMT kernels in Python: the decorator, and annotations of parameters.

numba-cuda compiles the bodies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import FunctionType
from typing import Any, NoReturn, overload

from tilec.model.axes import Axis as Axis
from tilec.model.axes import DTypeAxis as DTypeAxis
from tilec.model.axes import SizeAxis as SizeAxis
from tilec.model.axes import dtype as dtype
from tilec.model.axes import size as size
from tilec_runtime.errors import UsageError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Compile options of a kernel.

    Attributes:
        bounds: whether to check indices; None takes the profile's `bounds` (on in debug).
        fastmath: whether float arithmetic may be reordered and approximated.
        launch_bounds: largest number of threads of a block, then smallest number of blocks of a
            multiprocessor, then largest number of blocks of a cluster.
        max_registers: largest number of registers of a thread; 0 for no bound.
    """

    bounds: bool | None = None
    fastmath: bool = False
    launch_bounds: tuple[int, ...] = ()
    max_registers: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """A function decorated with `kernel`.

    `tilec build` compiles it; the generated package launches it.
    """

    function: FunctionType
    options: Options

    def __call__(self, *_arguments: object, **_named: object) -> NoReturn:
        """Refuse: a kernel is launched through the built package."""
        raise UsageError(
            f"{self.function.__name__} is a kernel: it is not called from Python",
            fix="build the project, and launch it through the package: module = acme_kernels.load(); module.NAME(…)",
        )


@overload
def kernel(function: FunctionType, /) -> Kernel: ...


@overload
def kernel(
    *,
    bounds: bool | None = None,
    fastmath: bool = False,
    launch_bounds: int | tuple[int, ...] = (),
    max_registers: int = 0,
) -> Callable[[FunctionType], Kernel]: ...


def kernel(
    function: FunctionType | None = None,
    /,
    *,
    bounds: bool | None = None,
    fastmath: bool = False,
    launch_bounds: int | tuple[int, ...] = (),
    max_registers: int = 0,
) -> Kernel | Callable[[FunctionType], Kernel]:
    """Make a function a kernel; `Options` describes the arguments.

    Raises:
        UsageError: the decorated object is no function, or a number is out of range.
    """
    bounded = (launch_bounds,) if isinstance(launch_bounds, int) else tuple(launch_bounds)
    if len(bounded) > 3 or any(type(number) is not int or number < 1 for number in bounded):
        raise UsageError(f"launch_bounds are one to three positive numbers, not {launch_bounds!r}")
    if type(max_registers) is not int or not 0 <= max_registers <= 255:
        raise UsageError(f"max_registers is at most 255, and 0 for no bound, not {max_registers!r}")
    options = Options(
        bounds=bounds, fastmath=bool(fastmath), launch_bounds=bounded, max_registers=max_registers
    )

    def wrap(made: object) -> Kernel:
        if not isinstance(made, FunctionType):
            message = f"@simt.kernel is put on a function, not on a {type(made).__name__}"
            raise UsageError(
                message,
                fix="take other decorators off: @simt.kernel stands in the place of @cuda.jit",
            )
        return Kernel(made, options)

    return wrap if function is None else wrap(function)


@dataclasses.dataclass(frozen=True, slots=True)
class Array:
    """`Ref[T, 2]` or `Mut[T, 2]`, which may be written: an array of a dtype and a rank."""

    written: bool
    dtype: Any
    rank: int


@dataclasses.dataclass(frozen=True, slots=True)
class ByValue:
    """`Struct[dtype]`: a struct passed by value; `layout` is a structured NumPy dtype."""

    layout: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """`Const[int]`: a compile-time constant, given by an axis or the default."""

    kind: type


def _array(word: str, item: Any) -> Array:
    parts = item if isinstance(item, tuple) else (item, 1)
    spelled = f"{word}[{', '.join(map(str, parts))}]"
    if len(parts) != 2 or type(parts[1]) is not int or not 1 <= parts[1] <= 3:
        raise UsageError(
            f"{spelled}: an array has a dtype and a rank of 1 to 3, as in {word}[T, 2]; a slice is {word}[T]"
        )
    return Array(word == "Mut", parts[0], parts[1])


class Ref:
    """A read-only array: `Ref[T]` has rank 1, `Ref[T, 3]` has rank 3."""

    def __class_getitem__(cls, item: Any) -> Array:
        """Return the annotation of a dtype and a rank."""
        return _array("Ref", item)


class Mut:
    """An array that all threads may read and write: `Mut[T]` has rank 1, `Mut[T, 3]` rank 3."""

    def __class_getitem__(cls, item: Any) -> Array:
        """Return the annotation of a dtype and a rank."""
        return _array("Mut", item)


class Struct:
    """A struct by value: `Struct[numpy.dtype([("low", "f4"), ("high", "f4")], align=True)]`."""

    def __class_getitem__(cls, layout: Any) -> ByValue:
        """Return the annotation of a structured NumPy dtype."""
        return ByValue(layout)


class Const:
    """A compile-time constant: `BLOCK: Const[int]`."""

    def __class_getitem__(cls, kind: Any) -> Constant:
        """Return the annotation of int, float or bool."""
        if kind not in (int, float, bool):
            raise UsageError(
                f"Const[{getattr(kind, '__name__', kind)}]: a constant is an int, a float or a bool"
            )
        return Constant(kind)
