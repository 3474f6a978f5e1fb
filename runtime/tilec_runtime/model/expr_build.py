"""Compilation of syntax trees to closures over parameters and axes."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from tilec_runtime.errors import ExpressionError
from tilec_runtime.model.dtype import DTYPES, short_name
from tilec_runtime.model.expr_tree import column_of

MAX_DEPTH = 32
INT_BOUND = 2**63
ATTRIBUTES = ("shape", "stride", "size", "ptr", "dtype")
TRUTHS = {"true": True, "false": False}  # as TOML writes them
FUNCTIONS = ("cdiv", "min", "max", "next_pow2", "nbytes")

Env = Mapping[str, Any]
Run = Callable[[Env], Any]


class Symbol:
    """A number that records operations on it, for launches on symbols."""

    __slots__ = ()

    def next_pow2(self) -> int | Symbol:
        """Return the smallest power of two that is not less than the number."""
        raise NotImplementedError


class FaultError(Exception):
    """An invalid value; `Expr.evaluate` turns it into an ExpressionError."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.column = column


_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_KINDS = {"shape": "tuple", "stride": "tuple", "size": "number", "ptr": "number", "dtype": "text"}
# The static kind of a value: number, truth (also a number), text, tuple, or any (a bare name).
Part = tuple[str, Run]


class Builder:
    """Turns one syntax tree into nested closures, and collects its names."""

    def __init__(self, text: str, known: Collection[str] | None) -> None:
        self.text = text
        self.known = known
        self.names: set[str] = set()
        self.uses: set[tuple[str, str]] = set()
        self.extents: set[tuple[str, str, int]] = set()
        self.sides: tuple[Run, ...] = ()  # of the comparison built last, the outermost one

    def error(self, node: ast.expr, message: str) -> ExpressionError:
        return ExpressionError(message, column=column_of(node, self.text))

    def build(self, node: ast.expr, depth: int) -> Part:
        if depth > MAX_DEPTH:
            raise self.error(
                node, f"the expression is nested too deeply: the most is {MAX_DEPTH} levels"
            )
        match node:
            case ast.Constant():
                return self.constant(node)
            case ast.Name():
                return self.name(node)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Subscript():
                return self.subscript(node, depth)
            case ast.BinOp():
                return self.arithmetic(node, depth)
            case ast.UnaryOp():
                return self.unary(node, depth)
            case ast.Compare():
                return self.compare(node, depth)
            case ast.BoolOp():
                return self.logic(node, depth)
            case ast.Call():
                return self.call(node, depth)
            case ast.Tuple():
                raise self.error(node, "a tuple can only be compared with a shape or a stride")
        word = {
            "IfExp": "'if'",
            "Lambda": "'lambda'",
            "List": "a list",
            "ListComp": "a comprehension",
            "Starred": "'*'",
        }
        raise self.error(
            node, f"{word.get(type(node).__name__, 'this')} is not part of the language"
        )

    def number(self, node: ast.expr, depth: int) -> Run:
        """Build `node` as a number; a bare name is checked on evaluation."""
        return self.checked(node, *self.build(node, depth))

    def checked(self, node: ast.expr, kind: str, run: Run) -> Run:
        """Refuse a value that is not a number, now or, for a bare name, on evaluation."""
        if kind in ("number", "truth"):
            return run
        if kind == "tuple":
            raise self.error(
                node, "a whole shape can only be compared: take one extent, such as x.shape[0]"
            )
        if kind == "text":
            raise self.error(node, "a dtype or text can only be compared with == or !=")
        column = column_of(node, self.text)

        def checked(env: Env) -> Any:
            value = run(env)
            if value.__class__ is str:
                raise FaultError(f"{value!r} is no number", column)
            return value

        return checked

    def constant(self, node: ast.Constant) -> Part:
        value = node.value
        if isinstance(value, str):
            raise self.error(node, "text can only be compared with == or !=")
        if not isinstance(value, int | float):
            raise self.error(node, f"{value!r} is not part of the language")
        if (isinstance(value, int) and value >= INT_BOUND) or not math.isfinite(value):
            raise self.error(node, "the number is too large: integers end below 2**63")
        return "number", lambda _env: value

    def known_name(self, node: ast.Name) -> str:
        name = node.id
        if self.known is not None and name not in self.known:
            if name in FUNCTIONS:
                raise self.error(node, f"{name!r} is a function: write {name}(…)")
            known = (
                f"; known are {', '.join(sorted(self.known))}"
                if self.known
                else "; there are no parameters or axes"
            )
            raise self.error(node, f"unknown name {name!r}{_meant(name, self.known) or known}")
        self.names.add(name)
        return name

    def name(self, node: ast.Name) -> Part:
        if node.id in TRUTHS and node.id not in (self.known or ()):
            return self.constant(ast.Constant(value=TRUTHS[node.id]))
        name = self.known_name(node)
        self.uses.add((name, ""))
        column = column_of(node, self.text)

        def run(env: Env) -> Any:
            value = _lookup(env, name, column)
            return value if value.__class__ in _PLAIN else _scalar(value, name, column)

        return "any", run

    def attribute(self, node: ast.Attribute) -> Part:
        if not isinstance(node.value, ast.Name):
            raise self.error(
                node, f"'.{node.attr}' follows a parameter's name only, as in x.{node.attr}"
            )
        attribute = node.attr
        name = self.known_name(node.value)
        if attribute not in _KINDS:
            known = _meant(attribute, ATTRIBUTES) or f"; known are {', '.join(ATTRIBUTES)}"
            raise self.error(node, f"unknown attribute {name + '.' + attribute!r}{known}")
        kind, run = _KINDS[attribute], self.read(node, name, attribute)
        if kind == "tuple":
            return kind, lambda env: tuple(run(env))
        return kind, (lambda env: str(run(env))) if kind == "text" else run

    def read(self, node: ast.expr, name: str, attribute: str) -> Run:
        """Build the value of a tensor's attribute."""
        self.uses.add((name, attribute))
        column = column_of(node, self.text)

        def run(env: Env) -> Any:
            value = _lookup(env, name, column)
            try:
                return getattr(value, attribute)
            except AttributeError:
                raise FaultError(
                    f"{name!r} is no tensor: it has no {attribute!r}", column
                ) from None

        return run

    def subscript(self, node: ast.Subscript, depth: int) -> Part:
        base = node.value
        if not isinstance(base, ast.Attribute) or _KINDS.get(base.attr, "tuple") != "tuple":
            raise self.error(node, "only shapes and strides have parts, as in x.shape[0]")
        if isinstance(node.slice, ast.Slice):
            return self.cut(base, node.slice, depth)
        if isinstance(node.slice, ast.Tuple):
            raise self.error(node, "one index is needed, as in x.shape[0]")
        whole, index = self.build(base, depth + 1)[1], self.number(node.slice, depth + 1)
        column, fixed = column_of(node, self.text), _literal(node.slice)
        assert isinstance(base.value, ast.Name)  # `build(base)` refuses other nodes
        name, attribute = base.value.id, base.attr
        if fixed is not None:
            self.extents.add((name, attribute, fixed))

        def run(env: Env) -> Any:
            extents, at = whole(env), index(env)
            try:
                return extents[at]
            except (IndexError, TypeError):
                raise FaultError(
                    f"{name}.{attribute} has {len(extents)} dimensions and no [{at!r}]", column
                ) from None

        return "number", run

    def cut(self, base: ast.expr, part: ast.Slice, depth: int) -> Part:
        """Build a slice of a shape or stride, such as x.shape[1:]."""
        if part.step is not None:
            raise self.error(part.step, "a part of a shape has two ends, as in x.shape[1:3]")
        whole = self.build(base, depth + 1)[1]
        first, last = (
            None if end is None else self.number(end, depth + 1) for end in (part.lower, part.upper)
        )
        column = column_of(base, self.text)

        def run(env: Env) -> Any:
            ends = [None if end is None else end(env) for end in (first, last)]
            try:
                return whole(env)[slice(*ends)]
            except TypeError:
                raise FaultError(f"an end of a part is no whole number: {ends!r}", column) from None

        return "tuple", run

    def arithmetic(self, node: ast.BinOp, depth: int) -> Part:
        # The tree of a chain such as a + b + c is as deep as the chain is long. It is unrolled, so
        # that a long chain does not exceed MAX_DEPTH.
        chain: list[ast.BinOp] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):
            chain.append(left)
            left = left.left
        first = self.number(left, depth + 1)
        steps = []
        for part in reversed(chain):
            if type(part.op) not in _ARITHMETIC:
                raise self.error(part, "the operators are + - * // %")
            right = self.number(part.right, depth + 1)
            if isinstance(part.op, ast.FloorDiv | ast.Mod) and _literal(part.right) == 0:
                raise self.error(part.right, "division by zero")
            steps.append((_ARITHMETIC[type(part.op)], right, column_of(part.right, self.text)))

        def run(env: Env) -> Any:
            value = first(env)
            for apply, operand, column in steps:
                try:
                    value = apply(value, operand(env))
                except ZeroDivisionError:
                    raise FaultError("division by zero", column) from None
                except OverflowError:
                    raise FaultError("a value is beyond 64 bits", column) from None
                if value.__class__ is int and not -INT_BOUND < value < INT_BOUND:
                    raise FaultError("a value is beyond 64 bits", column)
            return value

        return "number", run

    def unary(self, node: ast.UnaryOp, depth: int) -> Part:
        run = self.number(node.operand, depth + 1)
        if isinstance(node.op, ast.Not):
            return "truth", lambda env: not run(env)
        if isinstance(node.op, ast.USub):
            return "number", lambda env: -run(env)
        raise self.error(node, "unary plus is not part of the language")

    def logic(self, node: ast.BoolOp, depth: int) -> Part:
        built = [self.build(part, depth + 1) for part in node.values]
        parts = [self.checked(part, *one) for part, one in zip(node.values, built, strict=True)]
        # An axis or a scalar may be a boolean, which only its value shows.
        kinds = {one[0] for one in built}
        kind = "truth" if kinds == {"truth"} else "any" if kinds <= {"truth", "any"} else "number"
        stop_at = isinstance(node.op, ast.Or)

        def run(env: Env) -> Any:
            value: Any = None
            for part in parts:
                value = part(env)
                if bool(value) is stop_at:
                    break
            return value

        return kind, run

    def operand(self, node: ast.expr, depth: int) -> Part:
        """Build one side of a comparison, the only place for text and tuples."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            literal = short_name(node.value)
            return "text", lambda _env: literal
        if isinstance(node, ast.Tuple):
            parts = [self.number(part, depth + 1) for part in node.elts]
            return "tuple", lambda env: tuple([part(env) for part in parts])
        return self.build(node, depth)

    def compare(self, node: ast.Compare, depth: int) -> Part:
        nodes = [node.left, *node.comparators]
        parts = [self.operand(part, depth + 1) for part in nodes]
        steps = []
        for index, op in enumerate(node.ops):
            right = nodes[index + 1]
            if type(op) not in _COMPARE:
                raise self.error(node, "the comparisons are == != < <= > >=")
            equality = isinstance(op, ast.Eq | ast.NotEq)
            kinds = {
                "number" if part[0] == "truth" else part[0] for part in parts[index : index + 2]
            } - {"any"}
            if not equality and kinds - {"number"}:
                raise self.error(node, "shapes, dtypes and text can only be compared with == or !=")
            if len(kinds) == 2:
                raise self.error(
                    right,
                    f"a {_WORD[parts[index][0]]} is compared with a {_WORD[parts[index + 1][0]]}",
                )
            steps.append(
                (_COMPARE[type(op)], equality, parts[index + 1][1], column_of(right, self.text))
            )
        first = parts[0][1]
        self.sides = tuple(part[1] for part in parts)

        def run(env: Env) -> bool:
            left = first(env)
            for apply, equality, operand, column in steps:
                right = operand(env)
                if left.__class__ is not right.__class__ or not equality:
                    _comparable(left, right, equality, column)
                if not apply(left, right):
                    return False
                left = right
            return True

        return "truth", run

    def call(self, node: ast.Call, depth: int) -> Part:
        if not isinstance(node.func, ast.Name):
            raise self.error(node, f"only {', '.join(FUNCTIONS)} can be called")
        name = node.func.id
        if short_name(name) in DTYPES:
            raise self.error(node, f"the cast {name}() stands only around a whole kernel argument")
        if name not in FUNCTIONS:
            known = _meant(name, FUNCTIONS) or f"; known are {', '.join(FUNCTIONS)}"
            raise self.error(node, f"unknown function {name!r}{known}")
        if node.keywords:
            raise self.error(node, f"{name}() takes no keywords")
        count = len(node.args)
        if {"cdiv": count != 2, "next_pow2": count != 1, "nbytes": count != 1}.get(name, count < 2):
            wants = {"cdiv": "two values", "next_pow2": "one value", "nbytes": "one tensor"}.get(
                name, "two values or more"
            )
            raise self.error(node, f"{name}() takes {wants}, {count} given")
        if name == "nbytes":
            return self.nbytes(node.args[0])
        parts = [self.number(part, depth + 1) for part in node.args]
        if name == "cdiv" and _literal(node.args[1]) == 0:
            raise self.error(node.args[1], "division by zero")
        apply, column = _CALLS[name], column_of(node, self.text)

        def run(env: Env) -> Any:
            try:
                value = apply(*[part(env) for part in parts])
            except ZeroDivisionError:
                raise FaultError("division by zero", column) from None
            except (TypeError, ValueError, OverflowError) as error:
                raise FaultError(f"{name}(): {error}", column) from None
            if value.__class__ is int and not -INT_BOUND < value < INT_BOUND:
                raise FaultError("a value is beyond 64 bits", column)
            return value

        return "number", run

    def nbytes(self, node: ast.expr) -> Part:
        if not isinstance(node, ast.Name):
            raise self.error(node, "nbytes() takes a tensor parameter's name")
        return "number", self.read(node, self.known_name(node), "nbytes")


_PLAIN = (int, float, bool, str)
_WORD = {"number": "number", "truth": "number", "text": "text", "tuple": "shape"}


def _literal(node: ast.expr) -> int | None:
    """Return the value of an integer literal with its sign, or None for another node."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _literal(node.operand)
        return None if value is None else -value
    return node.value if isinstance(node, ast.Constant) and node.value.__class__ is int else None


def _lookup(env: Env, name: str, column: int) -> Any:
    try:
        return env[name]
    except KeyError:
        raise FaultError(f"{name!r} has no value", column) from None


def _scalar(value: Any, name: str, column: int) -> Any:
    """Convert a number of another library to a Python number; refuse tensors."""
    if isinstance(value, Symbol):
        return value
    if not hasattr(value, "ptr") and not hasattr(value, "stride"):
        if getattr(getattr(value, "dtype", None), "kind", "") == "b":
            return bool(value)  # older NumPy warns about `__index__` of its booleans
        if hasattr(value, "__index__"):
            return operator.index(value)
        if hasattr(value, "__float__"):
            return float(value)
    raise FaultError(
        f"{name!r} is no number: of a tensor use {name}.shape[0], {name}.size, {name}.dtype", column
    )


def _comparable(left: Any, right: Any, equality: bool, column: int) -> None:
    words = [
        "text" if isinstance(v, str) else "shape" if isinstance(v, tuple) else "number"
        for v in (left, right)
    ]
    if words[0] != words[1] or (not equality and words[0] != "number"):
        raise FaultError(
            f"{left!r} and {right!r} cannot be compared{'' if equality else ' by size'}", column
        )


def _cdiv(a: Any, b: Any) -> Any:
    return -(-a // b)


def _next_pow2(value: Any) -> int | Symbol:
    if value.__class__ is float:
        raise TypeError(f"{value!r} is no integer")
    if value < 0:
        raise ValueError(f"{value!r} is negative")
    if isinstance(value, Symbol):
        return value.next_pow2()
    return 1 << (int(value) - 1).bit_length() if value > 1 else 1


_CALLS: dict[str, Callable[..., Any]] = {
    "cdiv": _cdiv,
    "min": min,
    "max": max,
    "next_pow2": _next_pow2,
}


def _meant(name: str, known: Iterable[str]) -> str:
    from tilec_runtime.model.suggest import did_you_mean  # only errors need it

    return did_you_mean(name, known)
