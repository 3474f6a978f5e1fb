"""Derive divisors and constant values of a kernel's arguments."""

from __future__ import annotations

import ast
import dataclasses
import math
from collections.abc import Mapping

from tilec.model.job import Variant
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model.expr_tree import parse_tree
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.signature import Assumption, Param, ParamKind

_MOST = 2**62


class ArgumentFacts:
    """The facts of one variant, from its assumptions and parameters; a launch verifies each."""

    def __init__(self, params: tuple[Param, ...], variant: Variant) -> None:
        """Read the launcher's parameters, and the variant's axes and assumptions."""
        self._tensors = {p.name: p for p in params if p.kind is ParamKind.TENSOR}
        self._axes: Mapping[str, AxisValue] = dict(variant.constants)
        self._assume = {a.param: a for a in variant.assume}

    def alignment(self, name: str) -> int:
        """Return the alignment of a tensor's address in bytes."""
        param = self._tensors.get(name)
        return math.lcm(param.align, self._of(name).align) if param else 1

    def constant(self, text: str) -> int | None:
        """Return the value of an expression if every launch has the same, or None.

        Such an expression is a number, an axis, or an extent or stride that the manifest fixes.
        """
        try:
            return self._constant(parse_tree(text))
        except ExpressionError:
            return None

    def divisor(self, text: str) -> int:
        """Return the largest known divisor of an expression's value; 0 if the value is 0."""
        try:
            return self._divisor(parse_tree(text))
        except ExpressionError:
            return 1

    def _of(self, name: str) -> Assumption:
        return self._assume.get(name, Assumption(param=name))

    def _constant(self, node: ast.expr) -> int | None:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name):
            value = self._axes.get(node.id)
            return value if type(value) is int else None
        part = self._part(node)
        if part is not None and part[1] == "stride":
            return self._stride(part[0])[part[2]]
        if part is not None:
            return self._of(part[0]).extents(self._tensors[part[0]].rank)[part[2]]
        return None

    def _divisor(self, node: ast.expr) -> int:
        known = self._constant(node)
        if known is not None:
            return abs(known)
        part = self._part(node)
        if part is not None:
            name, attribute, index = part
            return (
                self._shape(name)[index]
                if attribute == "shape"
                else self._stride_divisors(name)[index]
            )
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="size") if (
                name in self._tensors and self._tensors[name].rank > 0
            ):
                return _bounded(math.prod(self._shape(name)))
            case ast.Call(func=ast.Name(id="min" | "max"), args=[*args]) if args:
                return math.gcd(*map(self._divisor, args))
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return self._divisor(inner)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return _bounded(self._divisor(left) * self._divisor(right))
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
                return math.gcd(self._divisor(left), self._divisor(right))
        return 1

    def _part(self, node: ast.expr) -> tuple[str, str, int] | None:
        """Return tensor, `shape` or `stride`, and dimension of `x.shape[0]`, or None."""
        match node:
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=name), attr="shape" | "stride" as what),
                slice=place,
            ):
                index = (
                    self._constant(place)
                    if not isinstance(place, ast.UnaryOp)
                    else -(self._constant(place.operand) or 0)
                )
                rank = self._tensors[name].rank if name in self._tensors else 0
                if index is not None and -rank <= index < rank:
                    return name, what, index % rank
        return None

    def _shape(self, name: str) -> tuple[int, ...]:
        rank = self._tensors[name].rank
        ones = (1,) * rank
        fixed, assumed = self._tensors[name].shape_divisible or ones, self._of(name).shape or ones
        extents = self._of(name).extents(rank)
        return tuple(
            math.lcm(a, b) if extent is None else extent
            for a, b, extent in zip(fixed, assumed, extents, strict=True)
        )

    def _stride(self, name: str) -> tuple[int | None, ...]:
        """Return a tensor's strides, None for those that vary between launches.

        A C-contiguous tensor has a last stride of 1; fixed extents give further strides.
        """
        param = self._tensors[name]
        if param.stride is None:
            return dataclasses.replace(self._of(name), contiguous=True).strides(
                (*(None,) * (param.rank - 1), 1)[-param.rank :]
            )
        return self._of(name).strides(param.stride)

    def _stride_divisors(self, name: str) -> tuple[int, ...]:
        param = self._tensors[name]
        ones = (1,) * param.rank
        fixed, assumed = param.stride_divisible or ones, self._of(name).stride or ones
        divisors = [math.lcm(a, b) for a, b in zip(fixed, assumed, strict=True)]
        if param.stride is None or self._of(name).contiguous:
            # A stride of a C-contiguous tensor is the product of the later extents.
            shape = self._shape(name)
            divisors = [
                math.lcm(d, _bounded(math.prod(shape[k + 1 :]))) for k, d in enumerate(divisors)
            ]
        return tuple(divisors)


def _bounded(value: int) -> int:
    """Return a divisor, or if it exceeds 62 bits its largest power of two, also a divisor."""
    return value if value < _MOST else min(value & -value, _MOST)
