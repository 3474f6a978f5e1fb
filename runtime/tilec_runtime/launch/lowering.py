"""Expressions of the manifest to code of programs: what `Expr.evaluate` computes, over the slots of
a call.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

from tilec_runtime.launch import program
from tilec_runtime.launch.program import LoweringError, Term, binary, unary
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.expr import Expr
from tilec_runtime.values import value_class

Env = Mapping[str, Any]
# A value on its way: a number or text that is known, code, or the parts of a shape.
Value = Term | float | str | list[Term]

_OPERATORS: dict[type[ast.AST], tuple[int, Callable[[Any, Any], Any]]] = {
    ast.Add: (program.ADD, operator.add),
    ast.Sub: (program.SUB, operator.sub),
    ast.Mult: (program.MUL, operator.mul),
    ast.FloorDiv: (program.FLOORDIV, operator.floordiv),
    ast.Mod: (program.MOD, operator.mod),
    ast.Eq: (program.EQ, operator.eq),
    ast.NotEq: (program.NE, operator.ne),
    ast.Lt: (program.LT, operator.lt),
    ast.LtE: (program.LE, operator.le),
    ast.Gt: (program.GT, operator.gt),
    ast.GtE: (program.GE, operator.ge),
}
_FUNCTIONS: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "cdiv": (program.CDIV, lambda a, b: -(-a // b)),
    "min": (program.MIN, min),
    "max": (program.MAX, max),
}


@value_class(frozen=True, kw_only=True, slots=True)
class TensorTerms:
    """The facts of a tensor as terms of a program: addresses of its first element, of its first
    byte and behind its last one; extents and strides in elements.
    """

    ptr: Term
    start: Term
    end: Term
    shape: list[Term]
    stride: list[Term]
    size: Term
    dtype: str
    contiguous: bool

    @property
    def nbytes(self) -> Term:
        """Bytes of its elements."""
        return binary(program.CDIV, binary(program.MUL, self.size, DTYPES[self.dtype].bits), 8)


def lowered(expression: Expr, env: Env) -> Value:
    """An expression's value as a term.

    Args:
        expression: of the contract.
        env: axes and scalars by name, as values or terms; tensors as `TensorTerms`.

    Raises:
        LoweringError: a program cannot compute it.
    """
    return _lower(expression.tree, env)


def number(value: Value) -> Term:
    """A value as a whole number.

    Raises:
        LoweringError: it is none.
    """
    if isinstance(value, int | tuple):
        return value
    raise LoweringError("an expression is no whole number")


def truth(value: Value) -> Term:
    """Whether a value counts as true."""
    return bool(value) if isinstance(value, float | str) else number(value)


def _lower(node: ast.expr, env: Env) -> Value:
    match node:
        case ast.Constant():
            return node.value  # type: ignore[return-value]
        case ast.Name():
            return _named(node.id, env)
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            found: Value = getattr(_tensor(name, env), attribute)
            return found
        case ast.Subscript():
            return _part(node, env)
        case ast.BinOp():
            return _joined(
                _OPERATORS[type(node.op)], _lower(node.left, env), _lower(node.right, env)
            )
        case ast.UnaryOp(op=ast.Not()):
            return unary(program.NOT, truth(_lower(node.operand, env)))
        case ast.UnaryOp():
            value = _lower(node.operand, env)
            return -value if isinstance(value, float) else unary(program.NEG, number(value))
        case ast.Compare():
            return _compared(node, env)
        case ast.BoolOp():
            return _logic(node, env)
        case ast.Tuple():
            return [number(_lower(part, env)) for part in node.elts]
        case ast.Call(func=ast.Name(id=name)):
            return _called(name, node.args, env)
    raise LoweringError("an expression has a part that programs have not")


def _named(name: str, env: Env) -> Value:
    value: Value | TensorTerms | None = env.get(name)
    if value is None or isinstance(value, TensorTerms):
        raise LoweringError(f"{name} is no number")
    return value


def _tensor(name: str, env: Env) -> TensorTerms:
    value = env.get(name)
    if not isinstance(value, TensorTerms):
        raise LoweringError(f"{name} is no tensor")
    return value


def _joined(operation: tuple[int, Callable[[Any, Any], Any]], left: Value, right: Value) -> Value:
    """An operation on two numbers, of which one may be no whole number if both are known."""
    op, apply = operation
    if isinstance(left, int | tuple) and isinstance(right, int | tuple):
        return binary(op, left, right)
    if isinstance(left, int | float) and isinstance(right, int | float):
        try:
            found: Value = apply(left, right)
        except (ZeroDivisionError, OverflowError) as error:
            raise LoweringError(str(error)) from error
        return found
    raise LoweringError("floats are computed with what changes from call to call")


def _part(node: ast.Subscript, env: Env) -> Value:
    whole = _lower(node.value, env)
    if isinstance(node.slice, ast.Slice):
        return _cut(whole, node.slice, env)
    index = _lower(node.slice, env)
    if (
        not isinstance(whole, list)
        or not isinstance(index, int)
        or not -len(whole) <= index < len(whole)
    ):
        raise LoweringError("which part of a shape is taken is not known")
    return whole[index]


def _cut(whole: Value, part: ast.Slice, env: Env) -> Value:
    first = 0 if part.lower is None else _lower(part.lower, env)
    last = None if part.upper is None else _lower(part.upper, env)
    if isinstance(whole, list) and isinstance(first, int) and isinstance(last, int | None):
        return whole[first:last]
    raise LoweringError("which parts of a shape are taken is not known")


def _compared(node: ast.Compare, env: Env) -> Term:
    """Comparisons in a chain; those behind one that is known to fail are not looked at."""
    conditions: list[Term] = []
    left = _lower(node.left, env)
    for op, operand in zip(node.ops, node.comparators, strict=True):
        right = _lower(operand, env)
        conditions.append(_comparison(op, left, right))
        if conditions[-1] == 0:
            return 0
        left = right
    return program.all_of(conditions)


def _comparison(op: ast.cmpop, left: Value, right: Value) -> Term:
    negated = isinstance(op, ast.NotEq)
    if isinstance(left, list) and isinstance(right, list):
        pairs = zip(left, right, strict=False)
        equal = (
            program.all_of([binary(program.EQ, a, b) for a, b in pairs])
            if len(left) == len(right)
            else 0
        )
        return unary(program.NOT, equal) if negated else equal
    if isinstance(left, str) and isinstance(right, str):
        return (left == right) != negated
    if isinstance(left, str | list) or isinstance(right, str | list):
        raise LoweringError("values of two kinds are compared")
    found = _joined(_OPERATORS[type(op)], left, right)
    return int(found) if isinstance(found, bool) else number(found)


def _logic(node: ast.BoolOp, env: Env) -> Value:
    """`and`, `or`: known parts that decide end it, as where it is evaluated."""
    stop_at = isinstance(node.op, ast.Or)
    whole: Value | None = None
    for part in node.values:
        value = _lower(part, env)
        if isinstance(whole, tuple):
            whole = binary(program.OR if stop_at else program.AND, whole, number(value))
            continue
        whole = value
        if not isinstance(value, tuple) and bool(value) is stop_at:
            break
    assert whole is not None  # there are two parts at least
    return whole


def _called(name: str, args: list[ast.expr], env: Env) -> Value:
    if name == "nbytes":
        return _tensor(ast.unparse(args[0]), env).nbytes
    values = [_lower(arg, env) for arg in args]
    if name == "next_pow2":
        return unary(program.POW2, number(values[0]))
    return functools.reduce(functools.partial(_joined, _FUNCTIONS[name]), values)
