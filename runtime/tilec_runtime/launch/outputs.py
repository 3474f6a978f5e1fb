"""Outputs that a call of an operator leaves out: allocated with the library of its inputs."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilec_runtime.device.handles import MOST_TYPES, libraries_of
from tilec_runtime.errors import ArgumentError, DTypeError, ExpressionError
from tilec_runtime.model.dtype import DTYPES, short_name
from tilec_runtime.model.expr import Expr, parse
from tilec_runtime.model.kernel import KernelInfo
from tilec_runtime.model.signature import ParamKind

# Makes an array beside one of the same library: of a shape, and of a dtype by tilec's name.
Empty = Callable[[Any, tuple[Any, ...], str], Any]
# The input that an output is made beside, its extents (None for those of that input), and its dtype
# as the index has it.
Rule = tuple[str, "tuple[Expr, ...] | None", str]


class Shaped:
    """What expressions of shapes read of an array of any library."""

    __slots__ = ("shape",)

    def __init__(self, shape: Sequence[Any]) -> None:
        """Take extents, which may be symbols of a tracer."""
        self.shape = shape

    @property
    def size(self) -> Any:
        """Number of elements; `math.prod` would make symbols numbers."""
        size: Any = 1
        for extent in self.shape:
            size = size * extent
        return size


class Outputs:
    """The outputs of an operator, and which of its calls leave them out.

    Attributes:
        name: the kernel's.
        names: the outputs.
        given: the inputs that every such call gives, which alone may be given by place.
        tensors: those of them that are tensors.
        template: the input whose library and device an output gets.
        rules: of each output.
    """

    def __init__(self, info: KernelInfo) -> None:
        """Read the operator of a kernel's row."""
        op = info.op
        assert op is not None
        self.name = info.name
        self.names = tuple(param.name for param in info.allocated)
        self.given = tuple(param.name for param in info.given)
        self.tensors = tuple(p.name for p in info.given if p.kind is ParamKind.TENSOR)
        self.template = self.tensors[0]
        self._defaults = {p.name: p.default for p in info.params if p.default is not None}
        self._fixed = {name: values[0] for name, values in info.axes if len(values) == 1}
        by_name = {output.param: output for output in op.outputs}
        self.rules = tuple(
            (
                by_name[name].like or self.template,
                None if by_name[name].like else tuple(map(parse, by_name[name].shape)),
                by_name[name].dtype,
            )
            for name in self.names
        )

    def reads(self, extents: Sequence[Expr]) -> list[str]:
        """The inputs that extents read."""
        return sorted({name for extent in extents for name in extent.names} - self._fixed.keys())

    def left_out(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether a call gives the inputs that it has to, and no output: outputs that are given by
        place make more values.
        """
        rest = self.given[len(args) :]
        return (
            len(args) <= len(self.given)
            and all(name in kwargs for name in rest)
            and kwargs.keys().isdisjoint((*self.names, *self.given[: len(args)]))
        )

    def shape(self, name: str, extents: Sequence[Expr], values: Mapping[str, Any]) -> list[Any]:
        """The shape of an output, by the numbers that its extents read, and the shapes of tensors.

        Raises:
            ArgumentError: it cannot be computed.
        """
        env: dict[str, Any] = dict(self._fixed)
        for each, value in values.items():
            env[each] = Shaped(value) if each in self.tensors else value
        try:
            shape = [extent.evaluate(env) for extent in extents]
        except ExpressionError as error:
            raise self._refused(f"the shape of {name} cannot be computed: {error.what}") from error
        for extent, value in zip(extents, shape, strict=True):
            # Symbols of a tracer are neither.
            if isinstance(value, float) or (isinstance(value, int) and value < 0):
                raise self._refused(f"{name} has no extent {extent.text} = {value}")
        return shape

    def allocate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Allocate the outputs of a call.

        Raises:
            ArgumentError: an input is no array, its library cannot allocate an output, or a shape
                cannot be computed.
        """
        for name in self.tensors:
            if not hasattr(values[name], "shape") or not hasattr(values[name], "dtype"):
                raise self._refused(
                    f"{name} is {type(values[name]).__name__}, and no array: the outputs "
                    f"{', '.join(self.names)}, which the call leaves out, cannot be allocated"
                )
        template = values[self.template]
        cls: type = type(template)
        make = _maker(cls)
        if make is None:
            raise self._refused(
                f"arrays of {cls.__module__.partition('.')[0]} are not allocated here: "
                f"pass {', '.join(self.names)}, or give arrays of torch, CuPy or NumPy"
            )
        allocated = {}
        for name, (like, extents, dtype) in zip(self.names, self.rules, strict=True):
            shape = values[like].shape
            if extents is not None:
                given = {**self._defaults, **values}
                read = {each: given[each] for each in self.reads(extents)}
                read |= {each: read[each].shape for each in self.tensors if each in read}
                shape = self.shape(name, extents, read)
            known = dtype in DTYPES
            allocated[name] = make(
                template, tuple(shape), dtype if known else self._dtype_of(dtype, values)
            )
        return allocated

    def _dtype_of(self, rule: str, values: Mapping[str, Any]) -> str:
        """The dtype of an input (`x.dtype`), for an output.

        Raises:
            DTypeError: it is none of tilec's.
        """
        source = rule.removesuffix(".dtype")
        dtype = dtype_name(values[source])
        if dtype not in DTYPES:
            raise DTypeError(
                f"{self.name}: argument {source!r} has dtype {dtype}, which is no dtype of kernels",
                fix="convert it to one that the kernel was built for",
                kernel=self.name,
            )
        return dtype

    def _refused(self, what: str) -> ArgumentError:
        return ArgumentError(f"{self.name}: {what}", kernel=self.name)


def dtype_name(array: Any) -> str:
    """Tilec's name of an array's dtype; that of its library where tilec has none."""
    return short_name(str(array.dtype).removeprefix("torch."))


@functools.lru_cache(maxsize=MOST_TYPES)
def _maker(cls: type) -> Empty | None:
    """What allocates arrays of a type's library; None where nothing here does."""
    libraries = libraries_of(cls)
    for name, make in (("torch", _of_torch), ("cupy", _of_cupy), ("numpy", _of_numpy)):
        if name in libraries:
            return make
    return None


def _of_torch(beside: Any, shape: tuple[Any, ...], dtype: str) -> Any:
    torch = importlib.import_module("torch")
    return torch.empty(shape, dtype=getattr(torch, DTYPES[dtype].numpy), device=beside.device)


def _of_cupy(beside: Any, shape: tuple[Any, ...], dtype: str) -> Any:
    from tilec_runtime.tensors.host import numpy_dtype  # first launches need none

    with beside.device:
        return importlib.import_module("cupy").empty(shape, numpy_dtype(dtype))


def _of_numpy(_beside: Any, shape: tuple[Any, ...], dtype: str) -> Any:
    from tilec_runtime.tensors.host import empty_array  # as above

    return empty_array(dtype, shape)
