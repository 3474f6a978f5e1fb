"""Derive divisors and constant values of a kernel's arguments."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace

from tilec.model.job import Variant
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model import expr
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.expr_build import Symbol
from tilec_runtime.model.signature import Assumption, Param, ParamKind

_MOST = 2**62


class Multiple(Symbol):
    """An unknown integer, of which a divisor is known."""

    __slots__ = ("divisor",)

    def __init__(self, divisor: int) -> None:
        """Store the divisor, or if it exceeds 62 bits its largest power of two."""
        self.divisor = divisor if divisor < _MOST else min(divisor & -divisor, _MOST)

    def next_pow2(self) -> Multiple:
        """Return an unknown integer."""
        return Multiple(1)

    def _sum(self, other: object) -> Multiple:
        return Multiple(math.gcd(self.divisor, _divisor(other)))

    def _product(self, other: object) -> Multiple:
        return Multiple(self.divisor * _divisor(other))

    def _quotient(self, other: object) -> Multiple:
        _divisor(other)  # refuses other numbers than integers
        return Multiple(1)

    def _decision(self, *_: object) -> bool:
        raise ExpressionError("it depends on the launch")

    def __neg__(self) -> Multiple:
        """Return the negated integer."""
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = _sum
    __mul__ = __rmul__ = _product
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _quotient
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _decision
    __hash__ = object.__hash__


def _divisor(value: object) -> int:
    if isinstance(value, Multiple):
        return value.divisor
    if isinstance(value, int):
        return abs(value)
    raise ExpressionError("it is no integer")


class ArgumentFacts:
    """The facts of one variant, from its assumptions and parameters; a launch verifies each."""

    def __init__(self, params: tuple[Param, ...], variant: Variant) -> None:
        """Read the launcher's parameters, and the variant's axes and assumptions."""
        self._values: dict[str, object] = dict(variant.constants)
        assume = {a.param: a for a in variant.assume}
        for param in params:
            dtype = DTYPES.get(str(self._values.get(param.dtype, param.dtype)))
            if param.kind is ParamKind.TENSOR and param.rank >= 0:
                assumed = assume.get(param.name, Assumption(param=param.name))
                self._values[param.name] = _tensor(param, assumed)
            elif param.kind is ParamKind.SCALAR and dtype and dtype.kind in ("int", "uint"):
                self._values[param.name] = Multiple(1)

    def constant(self, text: str) -> int | None:
        """Return the value of an expression if it is an integer that all launches share, or None."""
        value = self._value(text)
        return value if type(value) is int else None

    def divisor(self, text: str) -> int:
        """Return the largest known divisor of an expression's value; 0 if the value is 0."""
        value = self._value(text)
        return _divisor(value) if isinstance(value, int | Multiple) else 1

    def _value(self, text: str) -> object:
        try:
            return expr.parse(text).evaluate(self._values)
        except ExpressionError:
            return None


def _tensor(param: Param, assume: Assumption) -> SimpleNamespace:
    """Return a tensor for expressions: known extents and strides, and multiples for others."""
    rank, ones = param.rank, (1,) * param.rank
    strides = param.stride
    if strides is None:  # C-contiguous
        assume = dataclasses.replace(assume, contiguous=True)
        strides = (*(None,) * (rank - 1), 1)[:rank]
    shape = [
        Multiple(math.lcm(fixed, assumed)) if extent is None else extent
        for extent, fixed, assumed in zip(
            assume.extents(rank), param.shape_divisible or ones, assume.shape or ones, strict=True
        )
    ]
    divisors = [
        math.lcm(fixed, assumed)
        for fixed, assumed in zip(
            param.stride_divisible or ones, assume.stride or ones, strict=True
        )
    ]
    if assume.contiguous:  # a stride is the product of the later extents
        divisors = [
            math.lcm(divisor, _divisor(math.prod(shape[dim + 1 :])))
            for dim, divisor in enumerate(divisors)
        ]
    return SimpleNamespace(
        ptr=Multiple(math.lcm(param.align, assume.align)),
        shape=tuple(shape),
        stride=tuple(
            Multiple(divisor) if stride is None else stride
            for stride, divisor in zip(assume.strides(strides), divisors, strict=True)
        ),
        size=math.prod(shape),
    )
