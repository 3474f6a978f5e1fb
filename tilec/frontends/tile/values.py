"""Evaluate expressions of a kernel's source to extents, tile counts and tile indices."""

from __future__ import annotations

import ast
import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from tilec.frontends.tile import api
from tilec.frontends.tile.bodies import Bodies, Body, scope_of
from tilec.frontends.tile.safe import OUTPUTS, OWNED, Access, SafeParam
from tilec.frontends.tools.python_errors import parameter_nodes


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayOf:
    """A parameter itself."""

    param: SafeParam


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
    """How many tiles of a size there are along an axis of an array."""

    param: str
    axis: int
    size: str


@dataclasses.dataclass(frozen=True, slots=True)
class Within:
    """An index of one of those tiles, where all `divisors` are positive."""

    count: Count
    divisors: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Nearest:
    """An index of one of those tiles, where there is any."""

    count: Count


@dataclasses.dataclass(frozen=True, slots=True)
class Natural:
    """A number from 0 on, where all `divisors` are positive; at most `count` where that is known."""

    divisors: tuple[str, ...] = ()
    count: Count | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class AtMost:
    """A number that is at most a count, and may be negative."""

    count: Count


@dataclasses.dataclass(frozen=True, slots=True)
class Below:
    """A number from 0 up to, not including, `limit`."""

    limit: int


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A quotient or a remainder of such a number: from 0 up to, not including, what `limit` says,
    where all `divisors` are positive.
    """

    limit: str
    divisors: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Items:
    """A tuple."""

    values: tuple[Any, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Share:
    """The numbers of the tiles of a mapped output that a block owns; as `Turn`, one of them; as
    `Owned`, the place of one.
    """

    param: SafeParam


class Turn(Share):
    """A number of one of a block's tiles."""

    __slots__ = ()


class Owned(Share):
    """The place of one of a block's tiles."""

    __slots__ = ()


def size_text(value: Any) -> str | None:
    """A value as a size, None where it is none."""
    if isinstance(value, Size):
        return value.text
    return str(value) if type(value) is int else None


def is_natural(value: Any) -> bool:
    """Whether a value is a number from 0 on, where its divisors are positive."""
    return isinstance(value, Within | Nearest | Natural | Below | Part | Count | Extent) or (
        type(value) is int and value >= 0
    )


def divisors_of(value: Any) -> tuple[str, ...]:
    """What has to be positive for a value to be what it is taken for."""
    return value.divisors if isinstance(value, Within | Natural | Part) else ()


def limit_of(value: Any) -> str | None:
    """What an index is below, as an expression; None where it is no number from 0 on."""
    match value:
        case Within(count=count) | Nearest(count=count):
            return f"cdiv({count.param}.shape[{count.axis}], {count.size})"
        case Below(limit=limit):
            return str(limit)
        case Part(limit=limit):
            return limit
    return None


_DEEPEST = 8  # calls in calls that values are followed through


def parameters(params: Iterable[SafeParam]) -> dict[str, Any]:
    """What the parameters of a kernel stand for."""
    others = {Access.CONST: lambda param: Size(param.name), Access.SCALAR: lambda _: None}
    return {param.name: others.get(param.access, ArrayOf)(param) for param in params}


class Values:
    """Evaluates expressions of one function; None stands for what is not known.

    A name counts where it is bound once: then what its value is taken to be holds wherever it is
    used.

    Args:
        node: the function.
        scope: what names mean that it does not bind itself.
        given: what its parameters stand for, by name, as far as that is known.
        bodies: where the functions are found that calls are followed into.
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
        self._scope, self.given = scope, given
        self._bodies, self._depth = bodies, depth
        self._bound = _bindings(node, scope)
        self._defined = _definitions(node)
        self._known: dict[str, Any] = {}
        self._busy: set[str] = set()

    def of(self, node: ast.expr | None) -> Any:
        """What an expression stands for."""
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
                return Items(tuple(self.of(item) for item in items))
            case ast.Attribute():
                return self._attribute(node)
            case ast.Subscript(value=base, slice=ast.Constant() | ast.UnaryOp() as place):
                return _item(self.of(base), self.of(place))
            case ast.Call():
                return self._call(node)
            case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Mod() as op, right=right):
                return _divided(
                    self.of(left), size_text(self.of(right)), remainder=isinstance(op, ast.Mod)
                )
            case ast.IfExp(body=one, orelse=other):
                return _either(self.of(one), self.of(other))
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return _scaled(self.of(left), size_text(self.of(right)))
        return None

    def resolved(self, node: ast.expr) -> Any:
        """The Python object that a dotted name of the module means, None where it is something
        else.
        """
        if isinstance(node, ast.Name):
            return None if self._bound[node.id] else self._scope.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self.resolved(node.value)
            return getattr(base, node.attr, None) if isinstance(base, ModuleType | type) else None
        return None

    def _name(self, name: str) -> Any:
        if self._bound[name] == 0:
            value = self._scope.get(name)
            if isinstance(value, api.lang().SizeAxis):
                return Size(value.name)
            return value if type(value) is int else None
        if self._bound[name] == 1 and name in self.given:
            return self.given[name]
        if self._bound[name] > 1 or name not in self._defined or name in self._busy:
            return None
        if name not in self._known:
            self._busy.add(name)
            expression, steps, loop = self._defined[name]
            value = self._passed(expression) if loop else self.of(expression)
            for step in steps:
                value = _item(value, step)
            self._known[name] = value
            self._busy.discard(name)
        return self._known[name]

    def _attribute(self, node: ast.Attribute) -> Any:
        base = self.of(node.value)
        if isinstance(base, ArrayOf):
            param = base.param
            if node.attr == "shape":
                return Items(tuple(Extent(param.name, axis) for axis in range(param.rank)))
            if node.attr == "tile_shape" and param.access in OUTPUTS:
                return Items(tuple(_size(text) for text in param.tile))
            if node.attr == "index" and param.access in OWNED:
                return _places(param)
            if node.attr == "tiles" and param.access is Access.MAPPED:
                return Share(param)
        if isinstance(base, Owned) and node.attr == "index":
            return _places(base.param)
        found = self.resolved(node)
        if isinstance(found, api.lang().SizeAxis):
            return Size(found.name)
        return found if type(found) is int else None

    def _call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Attribute):
            base = self.of(node.func.value)
            if isinstance(base, ArrayOf):
                return self._method(base.param, node.func.attr, node)
        if (
            self.resolved(node.func) is api.cuda_tile().cdiv
            and len(node.args) == 2
            and not node.keywords
        ):
            extent, size = self.of(node.args[0]), size_text(self.of(node.args[1]))
            if isinstance(extent, Extent) and size is not None:
                return Count(extent.param, extent.axis, size)
        if (
            isinstance(node.func, ast.Name)
            and node.func.id == "min"
            and not self._is_known("min")
            and not node.keywords
        ):
            return _least([self.of(arg) for arg in node.args])
        return self._returned(node)

    def _returned(self, node: ast.Call) -> Any:
        """What a function of the project gives back, where it does so in one place."""
        body = self.callee(node.func)
        if body is None or self._depth >= _DEEPEST:
            return None
        results = [inner for inner in ast.walk(body.node) if isinstance(inner, ast.Return)]
        if len(results) != 1 or not any(inner is results[0] for inner in body.node.body):
            return None
        return self.inside(body, node).of(results[0].value)

    def callee(self, function: ast.expr) -> Body | None:
        """The function of the project that a call is of, where that is known."""
        return self._bodies.to_follow(self.resolved(function)) if self._bodies is not None else None

    def inside(self, body: Body, call: ast.Call) -> Values:
        """The values in a function that is called."""
        return Values(
            body.node,
            scope_of(body.function),
            self._passed_to(body, call),
            self._bodies,
            self._depth + 1,
        )

    def _passed_to(self, body: Body, call: ast.Call) -> dict[str, Any]:
        """What the parameters of a function stand for in a call; None where that is not known."""
        spec = body.node.args
        found: dict[str, Any] = dict.fromkeys(arg.arg for arg in parameter_nodes(body.node))
        if any(isinstance(arg, ast.Starred) for arg in call.args) or any(
            item.arg is None for item in call.keywords
        ):
            return found
        places = [arg.arg for arg in (*spec.posonlyargs, *spec.args)]
        defaults = body.function.__defaults__ or ()
        given = {
            **dict(zip(places[len(places) - len(defaults) :], defaults, strict=True)),
            **(body.function.__kwdefaults__ or {}),
        }
        found |= {name: value for name, value in given.items() if type(value) is int}
        found |= dict(zip(places, map(self.of, call.args), strict=False))
        named = {
            arg.arg for arg in (*spec.args, *spec.kwonlyargs)
        }  # a keyword of another name is one of `**others`
        return found | {
            item.arg: self.of(item.value) for item in call.keywords if item.arg in named
        }

    def _is_known(self, name: str) -> bool:
        """Whether a name means something else than Python's own."""
        return bool(self._bound[name]) or name in self._scope

    def _method(self, param: SafeParam, name: str, node: ast.Call) -> Any:
        if name == "num_tiles":
            axis = self.of(argument(node, 0, "axis"))
            if type(axis) is not int or not -param.rank <= axis < param.rank:
                return None
            axis %= param.rank
            size = (
                param.tile[axis]
                if param.access in OUTPUTS
                else size_text(self.of(argument(node, 1, "size")))
            )
            return None if size is None else Count(param.name, axis, size)
        if name == "nearest" and param.access is Access.REF:
            axis, size = (
                self.of(argument(node, 1, "axis")),
                size_text(self.of(argument(node, 2, "size"))),
            )
            return (
                Nearest(Count(param.name, axis, size))
                if type(axis) is int and 0 <= axis < param.rank and size is not None
                else None
            )
        if name == "place" and param.access is Access.MAPPED:
            turn = self.of(argument(node, 0, "tile"))
            return Owned(param) if isinstance(turn, Turn) and turn.param is param else None
        return None

    def _passed(self, node: ast.expr) -> Any:
        """What the variable of a loop over `node` stands for."""
        found = self.of(node)
        if type(found) is Share:
            return Turn(found.param)
        if not (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "range"
            and not node.keywords
        ):
            return None
        if self._is_known("range") or not 1 <= len(node.args) <= 3:
            return None
        values = [self.of(arg) for arg in node.args]
        start, stop = (0, values[0]) if len(values) == 1 else values[:2]
        step = values[2] if len(values) == 3 else 1
        if not (type(step) is int and step > 0) or not is_natural(start):
            return None
        count = stop.count if isinstance(stop, Natural | AtMost) else stop
        if isinstance(count, Count):
            return Within(count, divisors_of(start))
        return Below(stop) if type(stop) is int and not divisors_of(start) else None


def argument(node: ast.Call, place: int, name: str) -> ast.expr | None:
    """An argument of a call, by place or name; None where it is not given, or where something is
    unpacked before it.
    """
    if any(isinstance(arg, ast.Starred) for arg in node.args[: place + 1]) or any(
        item.arg is None for item in node.keywords
    ):
        return None
    return (
        node.args[place]
        if place < len(node.args)
        else next((item.value for item in node.keywords if item.arg == name), None)
    )


def _places(param: SafeParam) -> Items:
    return Items(
        tuple(
            0 if axis == param.axis else Within(Count(param.name, axis, size))
            for axis, size in enumerate(param.tile)
        )
    )


def _divided(number: Any, divisor: str | None, *, remainder: bool) -> Any:
    """A quotient or remainder."""
    if divisor is None or not is_natural(number):
        return None
    limit, given = limit_of(number), (*divisors_of(number), divisor)
    if remainder:
        return Part(divisor, given)
    return (
        Natural(given)
        if limit is None or isinstance(number, Nearest)
        else Part(f"cdiv({limit}, {divisor})", given)
    )


def _scaled(number: Any, factor: str | None) -> Any:
    """A tile's index times the tile's extent: its first element, which is one of the array's."""
    if isinstance(number, Within) and factor == number.count.size:
        return Natural(number.divisors)
    return None


def _least(values: Sequence[Any]) -> Any:
    """The least of several numbers: at most each of them, and from 0 on where all are."""
    return _with_count(
        values, next((count for count in map(_most, values) if count is not None), None)
    )


def _either(one: Any, other: Any) -> Any:
    """Return what holds for both of two values."""
    if one == other and is_natural(one):
        return one
    return _with_count((one, other), _most(one) if _most(one) == _most(other) else None)


def _with_count(values: Sequence[Any], count: Count | None) -> Any:
    if values and all(map(is_natural, values)):
        return Natural(
            tuple(dict.fromkeys(divisor for value in values for divisor in divisors_of(value))),
            count,
        )
    return None if count is None else AtMost(count)


def _most(value: Any) -> Count | None:
    """The count that a number is at most, if any."""
    if isinstance(value, AtMost | Natural):
        return value.count
    return value if isinstance(value, Count) else None


def _size(text: str) -> Any:
    return int(text) if text.isdigit() else Size(text)


def _item(value: Any, place: Any) -> Any:
    if (
        isinstance(value, Items)
        and type(place) is int
        and -len(value.values) <= place < len(value.values)
    ):
        return value.values[place]
    return None


def _bindings(node: ast.FunctionDef, scope: Mapping[str, Any]) -> Counter[str]:
    """How often each name is bound in the function, as a parameter, and in nested functions with
    theirs.

    What a nested function binds, and means something outside of it too, counts twice: it is not one
    thing.
    """
    found: Counter[str] = Counter(arg.arg for arg in parameter_nodes(node))
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
            found[inner.id] += 1
        elif (
            isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda)
            and inner is not node
        ):
            found.update(name for name in _stored(inner) if name in scope)
            if not isinstance(inner, ast.Lambda):
                found[inner.name] += 1
            if not isinstance(inner, ast.ClassDef):
                found.update(arg.arg for arg in parameter_nodes(inner))
        elif isinstance(inner, ast.Global | ast.Nonlocal):
            found.update(inner.names * 2)
        elif isinstance(inner, ast.alias):
            found[inner.asname or inner.name.partition(".")[0]] += 1
        elif isinstance(inner, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and inner.name:
            found[inner.name] += 1
    return found


def _stored(node: ast.AST) -> set[str]:
    return {
        inner.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load)
    }


def _definitions(node: ast.FunctionDef) -> dict[str, tuple[ast.expr, tuple[int, ...], bool]]:
    """What names are bound to: an expression, the way into its value, and whether the name is the
    variable of a loop over it.
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
