"""Outputs that a call of an operator leaves out, and their allocation.

The library of the inputs allocates them.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tilec_runtime.device.handles import MOST_TYPES, libraries_of
from tilec_runtime.errors import ArgumentError, DTypeError, ExpressionError
from tilec_runtime.model.dtype import DTYPES, short_name
from tilec_runtime.model.expr import Expr, parse
from tilec_runtime.model.kernel import KernelInfo
from tilec_runtime.model.signature import ParamKind

Values = tuple[Any, ...]


class Library(NamedTuple):
    """The functions by which an array library allocates.

    Attributes:
        dtype: returns the library's dtype for tilec's name of it.
        empty: allocates an array beside another one, with a shape and a dtype.
    """

    dtype: Callable[[str], Any]
    empty: Callable[[Any, Any, Any], Any]


class Rule(NamedTuple):
    """The shape and dtype of one output.

    Attributes:
        shape: returns the output's shape for the values of all inputs.
        dtype: tilec's name; empty for the dtype of the input at `source`.
        source: place of the input with that dtype.
    """

    shape: Callable[[Values], Any]
    dtype: str
    source: int


class Shaped:
    """An array of any library as expressions of shapes read it."""

    __slots__ = ("shape",)

    def __init__(self, shape: Sequence[Any]) -> None:
        """Keep the extents, which may be symbols of a tracer."""
        self.shape = shape

    @property
    def size(self) -> Any:
        """Number of elements. `math.prod` would turn symbols into numbers."""
        size: Any = 1
        for extent in self.shape:
            size = size * extent
        return size


class Outputs:
    """The outputs of an operator, and the calls that leave them out.

    Attributes:
        names: the outputs.
        given: the inputs that every such call passes; only these may be positional.
        inputs: all inputs, with their defaults.
        template: place of the input that determines the library and device of outputs.
    """

    def __init__(self, info: KernelInfo) -> None:
        """Read the operator from a kernel's index entry."""
        order = (*info.allocated, *info.inputs)
        self._name = info.name
        self.names = tuple(param.name for param in info.allocated)
        self.given = tuple(param.name for param in info.given)
        self.inputs = {param.name: param.default for param in info.inputs}
        tensors = [param.name for param in info.given if param.kind is ParamKind.TENSOR]
        self._places = {name: index for index, name in enumerate(self.inputs)}
        self._tensors = {name: self._places[name] for name in tensors}
        self.template = self._tensors[tensors[0]]
        self._fixed = {name: values[0] for name, values in info.axes if len(values) == 1}
        self._order = tuple(map(order.index, info.params))
        self._in_order = order == info.params
        by_name = {output.param: output for output in info.op.outputs} if info.op else {}
        self._rules = []
        for name in self.names:
            output = by_name[name]
            shape = (
                functools.partial(_shape_at, self._places[output.like])
                if output.like
                else self._shape_of(name, tuple(map(parse, output.shape)))
            )
            dtype = output.dtype if output.dtype in DTYPES else ""
            source = 0 if dtype else self._places[output.dtype.removesuffix(".dtype")]
            self._rules.append(Rule(shape, dtype, source))

    def left_out(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether a call passes all required inputs and no output.

        More positional values than `given` inputs mean that the outputs are passed.
        """
        rest = self.given[len(args) :]
        return (
            len(args) <= len(self.given)
            and all(name in kwargs for name in rest)
            and kwargs.keys().isdisjoint((*self.names, *self.given[: len(args)]))
        )

    def allocate(self, inputs: Values) -> Values:
        """Allocate the outputs of a call.

        Args:
            inputs: the inputs in order; trailing defaults may be missing.

        Raises:
            ArgumentError: an input is not an array, its library cannot allocate an output, or a
                shape cannot be computed.
        """
        if len(inputs) < len(self.inputs):
            inputs += tuple(self.inputs.values())[len(inputs) :]
        template = inputs[self.template]
        cls: type = type(template)
        library = library_of(cls)
        try:
            if library is not None:
                return tuple(
                    [
                        library.empty(
                            template, rule.shape(inputs), self._dtype(library, rule, inputs)
                        )
                        for rule in self._rules
                    ]
                )
        except AttributeError:
            self._require_arrays(inputs)
            raise
        self._require_arrays(inputs)
        raise self._refused(
            f"arrays of {cls.__module__.partition('.')[0]} are not allocated here: "
            f"pass {', '.join(self.names)}, or give arrays of torch, CuPy or NumPy"
        )

    def values(self, outputs: Values, inputs: Values) -> Values:
        """Return the values of all parameters in order."""
        both = outputs + inputs
        return both if self._in_order else tuple([both[index] for index in self._order])

    def _shape_of(self, name: str, extents: Sequence[Expr]) -> Callable[[Values], Any]:
        """Return a function that computes an output's shape from the inputs of a call.

        It caches the shapes of real arrays: evaluating expressions costs more than an allocation.
        """
        read = sorted({each for extent in extents for each in extent.names} - self._fixed.keys())
        tensors = [each for each in read if each in self._tensors]
        numbers = [each for each in read if each not in self._tensors]
        shaped = [self._places[each] for each in tensors]
        plain = [self._places[each] for each in numbers]

        def compute(*values: Any) -> Values:
            env: dict[str, Any] = dict(self._fixed)
            env.update(zip(numbers, values[len(tensors) :], strict=True))
            env.update(zip(tensors, map(Shaped, values), strict=False))
            return self._computed(name, extents, env)

        cached = functools.lru_cache(maxsize=1024, typed=True)(compute)

        def shape(inputs: Values) -> Values:
            values = [inputs[index].shape for index in shaped] + [inputs[index] for index in plain]
            try:
                return cached(*values)
            except TypeError:  # symbols of a tracer have no hash
                return compute(*values)

        return shape

    def _computed(self, name: str, extents: Sequence[Expr], env: Mapping[str, Any]) -> Values:
        """Evaluate the extents of an output.

        Raises:
            ArgumentError: an extent cannot be computed, or is a float or negative.
        """
        try:
            shape = tuple([extent.evaluate(env) for extent in extents])
        except ExpressionError as error:
            raise self._refused(f"the shape of {name} cannot be computed: {error.what}") from error
        for extent, value in zip(extents, shape, strict=True):
            # Symbols of a tracer are neither float nor int.
            if isinstance(value, float) or (isinstance(value, int) and value < 0):
                raise self._refused(f"{name} has no extent {extent.text} = {value}")
        return shape

    def _dtype(self, library: Library, rule: Rule, inputs: Values) -> Any:
        """Return the dtype of an output in the type of its library.

        Raises:
            DTypeError: the output takes the dtype of an input of another library, and kernels have
                no such dtype.
        """
        if rule.dtype:
            return library.dtype(rule.dtype)
        source = inputs[rule.source]
        cls: type = type(source)
        if library_of(cls) is library:
            return source.dtype
        name = short_name(str(source.dtype).removeprefix("torch."))
        if name not in DTYPES:
            raise DTypeError(
                f"{self._name}: argument {list(self.inputs)[rule.source]!r} has dtype {name}, which is no dtype of kernels",
                fix="convert it to one that the kernel was built for",
                kernel=self._name,
            )
        return library.dtype(name)

    def _require_arrays(self, inputs: Values) -> None:
        for name, index in self._tensors.items():
            if not hasattr(inputs[index], "shape") or not hasattr(inputs[index], "dtype"):
                raise self._refused(
                    f"{name} is {type(inputs[index]).__name__}, and no array: the outputs "
                    f"{', '.join(self.names)}, which the call leaves out, cannot be allocated"
                )

    def _refused(self, message: str) -> ArgumentError:
        return ArgumentError(f"{self._name}: {message}", kernel=self._name)


@functools.lru_cache(maxsize=MOST_TYPES)
def library_of(cls: type) -> Library | None:
    """Return how to allocate arrays like those of a type, or None."""
    libraries = libraries_of(cls)
    for name, make in (("torch", _torch), ("cupy", _cupy), ("numpy", _numpy)):
        if name in libraries:
            return make()
    return None


def _shape_at(index: int, inputs: Values) -> Any:
    return inputs[index].shape


def _torch() -> Library:
    torch = importlib.import_module("torch")

    def empty(beside: Any, shape: Any, dtype: Any) -> Any:
        return beside.new_empty(shape, dtype=dtype)

    return Library(functools.cache(lambda name: getattr(torch, DTYPES[name].numpy)), empty)


def _cupy() -> Library:
    from tilec_runtime.tensors.host import numpy_dtype  # most launches do not need it

    cupy = importlib.import_module("cupy")

    def empty(beside: Any, shape: Any, dtype: Any) -> Any:
        with beside.device:
            return cupy.empty(shape, dtype)

    return Library(functools.cache(numpy_dtype), empty)


def _numpy() -> Library:
    from tilec_runtime.tensors.host import numpy_dtype  # most launches do not need it

    empty = importlib.import_module("numpy").empty

    return Library(functools.cache(numpy_dtype), lambda _beside, shape, dtype: empty(shape, dtype))
