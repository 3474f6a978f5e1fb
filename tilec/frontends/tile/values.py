"""Evaluate expressions of a kernel's source to extents, tile counts and tile indices.

A value is an int, a tuple of values, a parameter (`SafeParam`), one of the classes below, or None
if unknown.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tilec.frontends.tile import api
from tilec.frontends.tile.bodies import Bodies, Body, resolved, scope_of
from tilec.frontends.tile.safe import OUTPUTS, OWNED, Access, SafeParam
from tilec.frontends.tools.python_errors import parameter_nodes


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """A compile-time size: an axis, a constant or a number, as text."""

    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Extent:
    """An array's extent along an axis."""

    param: str
    axis: int


@dataclasses.dataclass(frozen=True, slots=True)
class Count:
    """The number of tiles of a size along an axis of an array."""

    param: str
    axis: int
    size: str

    def __str__(self) -> str:
        """Return the count as an expression of a requirement."""
        extent = f"{self.param}.shape[{self.axis}]"
        return extent if self.size == "1" else f"cdiv({extent}, {self.size})"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Number:
    """The bounds of an integer that a kernel computes.

    Attributes:
        natural: it is not negative, if all `divisors` are positive.
        below: the number of tiles of which it is an index, or another expression greater than it;
            empty if unknown.
        divisors: expressions that it was divided by.
        at_most: an upper bound, inclusive.
        clamped: it was clamped to its range, which may be empty.
    """

    natural: bool = True
    below: Count | str = ""
    divisors: tuple[str, ...] = ()
    at_most: Count | None = None
    clamped: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Share:
    """A block's share of a mapped output: all `tiles` (numbers), one `tile`, or the `place` of one."""

    param: SafeParam
    part: str


def own_places(param: SafeParam) -> tuple[Any, ...]:
    """Return the index of a block's own tile, or of the first along a spanned axis."""
    return tuple(
        0 if axis == param.axis else Number(below=Count(param.name, axis, size))
        for axis, size in enumerate(param.tile)
    )


def size_text(value: Any) -> str | None:
    """Return a value as a size, or None if it is not one."""
    if isinstance(value, Size):
        return value.text
    return str(value) if type(value) is int else None


def number(value: Any) -> Number | None:
    """Return a value's bounds if it is a number that is not negative, else None."""
    if type(value) is int and value >= 0:
        return Number(below=str(value + 1))
    if isinstance(value, Extent):
        return Number()
    return value if isinstance(value, Number) and value.natural else None


_DEEPEST = 8  # calls in calls that values are followed through
_LONGEST = 200  # text of a computed size, which a loop of calls could double without end
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//"}


def parameters(params: Sequence[SafeParam]) -> dict[str, Any]:
    """Return the values of a kernel's parameters."""
    found: dict[str, Any] = {param.name: param for param in params}
    for param in params:
        if param.access in (Access.CONST, Access.SCALAR):
            found[param.name] = Size(param.name) if param.access is Access.CONST else None
    return found


class Values:
    """Evaluates expressions of one function.

    A name has a value if it is bound once: the value then holds wherever the name is used.

    Args:
        node: the function.
        scope: the meaning of names that it does not bind itself.
        given: known values of its parameters.
        bodies: the functions that calls are followed into.
        depth: how many calls this function is inside of.
    """

    def __init__(
        self,
        node: ast.FunctionDef,
        scope: Mapping[str, Any],
        given: Mapping[str, Any],
        bodies: Bodies | None = None,
        depth: int = 0,
    ) -> None:
        self.given, self._bodies, self._depth = given, bodies, depth
        self._bound = _bindings(node, scope)
        self._scope = {name: value for name, value in scope.items() if not self._bound[name]}
        self._defined = _definitions(node)
        self._known: dict[str, Any] = {}
        self._busy: set[str] = set()

    def of(self, node: ast.expr | None) -> Any:
        """Return the value of an expression."""
        match node:
            case ast.Constant(value=value) if type(value) is int:
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)) if (
                type(value) is int
            ):
                return -value
            case ast.Name(id=name):
                return self._name(name)
            case ast.Tuple(elts=items):
                return tuple(self.of(item) for item in items)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Subscript(value=base, slice=ast.Constant() | ast.UnaryOp() as place):
                return _item(self.of(base), self.of(place))
            case ast.Call():
                return self._call(node)
            case ast.BinOp(left=left, op=op, right=right):
                return _computed(self.of(left), op, self.of(right))
            case ast.IfExp(body=one, orelse=other):
                return _either(self.of(one), self.of(other))
        return None

    def resolved(self, node: ast.expr) -> Any:
        """Return the Python object that a dotted name of the module means, or None."""
        return resolved(node, self._scope)

    def callee(self, function: ast.expr) -> Body | None:
        """Return the project's function that a call runs, or None."""
        return self._bodies.to_follow(self.resolved(function)) if self._bodies is not None else None

    def inside(self, body: Body, call: ast.Call) -> Values:
        """Return the values in a function that is called."""
        found: dict[str, Any] = dict.fromkeys(arg.arg for arg in parameter_nodes(body.node))
        for name, passed in passed_to(body, call).items():
            if isinstance(passed, ast.expr):
                found[name] = self.of(passed)
            elif type(passed) is int:
                found[name] = passed
        return Values(body.node, scope_of(body.function), found, self._bodies, self._depth + 1)

    def _name(self, name: str) -> Any:
        if self._bound[name] == 0:
            return _constant(self._scope.get(name))
        if self._bound[name] == 1 and name in self.given:
            return self.given[name]
        if self._bound[name] > 1 or name not in self._defined or name in self._busy:
            return None
        if name not in self._known:
            self._busy.add(name)
            expression, steps, loop = self._defined[name]
            value = self._loop_variable(expression) if loop else self.of(expression)
            for step in steps:
                value = _item(value, step)
            self._known[name] = value
            self._busy.discard(name)
        return self._known[name]

    def _attribute(self, node: ast.Attribute) -> Any:
        match self.of(node.value), node.attr:
            case SafeParam() as param, "shape":
                return tuple(Extent(param.name, axis) for axis in range(param.rank))
            case SafeParam() as param, "tile_shape" if param.access in OUTPUTS:
                return tuple(int(text) if text.isdigit() else Size(text) for text in param.tile)
            case SafeParam() as param, "index" if param.access in OWNED:
                return own_places(param)
            case SafeParam(access=Access.MAPPED) as param, "tiles":
                return Share(param, "tiles")
            case Share(param=param, part="place"), "index":
                return own_places(param)
        return _constant(self.resolved(node))

    def _call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Attribute):
            base = self.of(node.func.value)
            if isinstance(base, SafeParam):
                return self._method(base, node.func.attr, node)
        if self.resolved(node.func) is api.cuda_tile().cdiv:
            extent, size = (self.of(argument(node, place, "")) for place in range(2))
            size = size_text(size)
            if isinstance(extent, Extent) and size is not None:
                return Number(at_most=Count(extent.param, extent.axis, size))
        if self.resolved(node.func) is min and not node.keywords:
            values = [self.of(arg) for arg in node.args]
            return _with_count(values, next(filter(None, map(_most, values)), None))
        return self._returned(node)

    def _returned(self, node: ast.Call) -> Any:
        """Return the result of a project's function with one `return`, at its end."""
        body = self.callee(node.func)
        if body is None or self._depth >= _DEEPEST:
            return None
        results = [inner for inner in ast.walk(body.node) if isinstance(inner, ast.Return)]
        if len(results) != 1 or not any(inner is results[0] for inner in body.node.body):
            return None
        return self.inside(body, node).of(results[0].value)

    def _method(self, param: SafeParam, name: str, node: ast.Call) -> Any:
        if name == "place" and param.access is Access.MAPPED:
            own = self.of(argument(node, 0, "tile")) == Share(param, "tile")
            return Share(param, "place") if own else None
        if name not in ("num_tiles", "nearest"):
            return None
        first = int(name == "nearest")
        axis = self.of(argument(node, first, "axis"))
        if type(axis) is not int or not -param.rank <= axis < param.rank:
            return None
        axis %= param.rank
        size = size_text(self.of(argument(node, first + 1, "size")))
        if param.access in OUTPUTS:
            size = param.tile[axis]
        if size is None:
            return None
        count = Count(param.name, axis, size)
        return Number(below=count, clamped=True) if first else Number(at_most=count)

    def _loop_variable(self, node: ast.expr) -> Any:
        """Return the value of the variable of a loop over `node`."""
        found = self.of(node)
        if isinstance(found, Share) and found.part == "tiles":
            return Share(found.param, "tile")
        if not isinstance(node, ast.Call) or self.resolved(node.func) is not range:
            return None
        if node.keywords or not 1 <= len(node.args) <= 3:
            return None
        values = [self.of(arg) for arg in node.args]
        start, stop = (0, values[0]) if len(values) == 1 else values[:2]
        step = values[2] if len(values) == 3 else 1
        least = number(start)
        if not (type(step) is int and step > 0) or least is None:
            return None
        if (count := _most(stop)) is not None:
            return Number(below=count, divisors=least.divisors)
        return Number(below=str(stop)) if type(stop) is int and not least.divisors else None


def argument(node: ast.Call, place: int, name: str) -> ast.expr | None:
    """Return an argument of a call, by place or name; None if it is absent, or behind a `*`."""
    if any(isinstance(arg, ast.Starred) for arg in node.args[: place + 1]) or any(
        item.arg is None for item in node.keywords
    ):
        return None
    return (
        node.args[place]
        if place < len(node.args)
        else next((item.value for item in node.keywords if item.arg == name), None)
    )


def passed_to(body: Body, call: ast.Call) -> dict[str, Any]:
    """Return the argument of each parameter: an expression of the call, or its default value.

    The result is empty if the call unpacks any, or does not fit the function.
    """
    named = {item.arg: item.value for item in call.keywords if item.arg is not None}
    if any(isinstance(arg, ast.Starred) for arg in call.args) or len(named) < len(call.keywords):
        return {}
    try:
        bound = inspect.signature(body.function).bind(*call.args, **named)
    except TypeError:
        return {}
    bound.apply_defaults()
    return bound.arguments


def _constant(value: Any) -> Any:
    if isinstance(value, api.lang().SizeAxis):
        return Size(value.name)
    return value if type(value) is int else None


def _computed(left: object, op: ast.operator, right: object) -> Number | Size | None:
    """Return the bounds of a computed index, or a size computed from sizes."""
    other = size_text(right)
    index: Number | None = None
    if isinstance(op, ast.FloorDiv | ast.Mod):
        index = _divided(left, other, remainder=isinstance(op, ast.Mod))
    elif isinstance(op, ast.Mult):
        index = _scaled(left, other)
    one, sign = size_text(left), _SIGNS.get(type(op))
    if index is not None or one is None or other is None or sign is None:
        return index
    # Python and the kernel's compiler may differ on an operation of two numbers.
    text = f"({one} {sign} {other})"
    computed = isinstance(left, Size) or isinstance(right, Size)
    return Size(text) if computed and len(text) <= _LONGEST else None


def _divided(value: Any, divisor: str | None, *, remainder: bool) -> Number | None:
    dividend = number(value)
    if divisor is None or dividend is None:
        return None
    divisors = (*dividend.divisors, divisor)
    if remainder:
        return Number(below=divisor, divisors=divisors)
    if type(value) is int or not dividend.below or dividend.clamped:
        return Number(divisors=divisors)
    return Number(below=f"cdiv({dividend.below}, {divisor})", divisors=divisors)


def _scaled(value: Any, factor: str | None) -> Number | None:
    """Return a tile's index times the tile's extent: its first element."""
    if isinstance(value, Number) and isinstance(value.below, Count) and not value.clamped:
        return Number(divisors=value.divisors) if factor == value.below.size else None
    return None


def _either(one: Any, other: Any) -> Any:
    """Return the bounds that hold for both of two values."""
    if one == other and number(one) is not None:
        return one
    return _with_count((one, other), _most(one) if _most(one) == _most(other) else None)


def _with_count(values: Sequence[Any], count: Count | None) -> Number | None:
    numbers = [found for found in map(number, values) if found is not None]
    if values and len(numbers) == len(values):
        divisors = dict.fromkeys(divisor for each in numbers for divisor in each.divisors)
        return Number(divisors=tuple(divisors), at_most=count)
    return None if count is None else Number(natural=False, at_most=count)


def _most(value: Any) -> Count | None:
    return value.at_most if isinstance(value, Number) else None


def _item(value: Any, place: Any) -> Any:
    if isinstance(value, tuple) and type(place) is int and -len(value) <= place < len(value):
        return value[place]
    return None


def _bindings(node: ast.FunctionDef, scope: Mapping[str, Any]) -> Counter[str]:
    """Count how often each name is bound in a function and in those nested in it.

    A name bound in a nested function counts twice if the outer function uses it too.
    """
    found: Counter[str] = Counter()
    for inner in ast.walk(node):
        match inner:
            case (
                ast.Name(id=name, ctx=ast.Store() | ast.Del())
                | ast.arg(arg=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                found[name] += 1
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                found.update(names * 2)
            case ast.alias(name=name, asname=alias):
                found[alias or name.partition(".")[0]] += 1
        if inner is not node and isinstance(inner, _SCOPES):
            found.update(name for name in _stored(inner) if name in scope)
    found[node.name] -= 1
    return found


def _stored(node: ast.AST) -> set[str]:
    return {
        inner.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load)
    }


def _definitions(node: ast.FunctionDef) -> dict[str, tuple[ast.expr, tuple[int, ...], bool]]:
    """Return the binding of each name: an expression, the path into its value, and whether the name
    is the variable of a loop over it.
    """
    found: dict[str, tuple[ast.expr, tuple[int, ...], bool]] = {}

    def bind(target: ast.expr, value: ast.expr, steps: tuple[int, ...], loop: bool) -> None:
        if isinstance(target, ast.Name):
            found[target.id] = (value, steps, loop)
        elif isinstance(target, ast.Tuple | ast.List) and not any(
            isinstance(item, ast.Starred) for item in target.elts
        ):
            for place, item in enumerate(target.elts):
                bind(item, value, (*steps, place), loop)

    for inner in ast.walk(node):
        match inner:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    bind(target, value, (), loop=False)
            case ast.AnnAssign(target=target, value=value) if value is not None:
                bind(target, value, (), loop=False)
            case ast.For(target=ast.Name() as target, iter=value):
                bind(target, value, (), loop=True)
    return found
