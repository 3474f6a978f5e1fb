"""Find the parameters that a Triton kernel loads and stores through.

Addresses are followed through arithmetic, assignments, and functions that the kernel calls.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tilec.frontends.tools.python_errors import parameter_nodes

_WRITES = ("store", "store_tensor_descriptor", "scatter")
_WRITES_PREFIX = "atomic_"
_READS = ("load", "load_tensor_descriptor", "gather")
# Functions and methods whose result is an address computed from the first argument or the object.
_SAME = (
    *(
        "make_tensor_descriptor",
        "make_block_ptr",
        "advance",
        "multiple_of",
        "max_contiguous",
        "max_constancy",
        "cast",
        "to",
    ),
    *("broadcast_to", "expand_dims", "reshape", "view", "trans", "permute", "ravel"),
)

Names = frozenset[str]


class Function(NamedTuple):
    """A function of a module: its syntax, and values of names that it does not bind."""

    node: ast.FunctionDef
    names: Mapping[str, object]


Finder = Callable[[object], "Function | None"]


def accesses(kernel: object, find: Finder) -> tuple[Names, Names]:
    """Return the parameters that a kernel or its callees access, and those they store through.

    An address is a parameter plus offsets: a loaded value is never taken for an address. `find`
    returns the function that a value is, or None.
    """
    function = find(kernel)
    if function is None:
        return frozenset(), frozenset()
    body = _Body(kernel, function, find, {})
    return body.accessed, body.written


class _Body:
    """The analysis of one function.

    Attributes:
        params: names of its parameters, in order.
        written: parameters that it stores through.
        accessed: parameters that it stores or loads through.
        returned: for each part of its result, the parameters that it is computed from.
    """

    def __init__(
        self, value: object, function: Function, find: Finder, known: dict[int, _Body]
    ) -> None:
        self._names, self._find = function.names, find
        # Analyses by the function's value. A recursive function finds itself here; Triton refuses
        # it later.
        self._known = known
        known[id(value)] = self
        self.params = [arg.arg for arg in parameter_nodes(function.node)]
        self._roots: dict[str, Names] = {name: frozenset((name,)) for name in self.params}
        self.written: Names = frozenset()
        self.accessed: Names = frozenset()
        self.returned: tuple[Names, ...] = ()
        # Two passes: in a loop, a name may be used above its assignment.
        for _ in range(2):
            for part in ast.walk(function.node):
                self._part(part)

    def _part(self, part: ast.AST) -> None:
        match part:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._bind(target, value)
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.NamedExpr(target=target, value=value)
            ):
                self._bind(target, value)
            case ast.Return(value=ast.expr() as value):
                self.returned = _joined(self.returned, self._parts(value))
            case ast.Call():
                self._call(part)

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        parts = self._parts(value)
        if isinstance(target, ast.Name):
            self._add(target.id, frozenset().union(*parts))
        elif isinstance(target, ast.Tuple | ast.List):
            whole = frozenset().union(*parts)
            for k, item in enumerate(target.elts):
                if isinstance(item, ast.Name):
                    self._add(item.id, parts[k] if len(parts) == len(target.elts) else whole)

    def _add(self, name: str, roots: Names) -> None:
        self._roots[name] = self._roots.get(name, frozenset()) | roots

    def _call(self, call: ast.Call) -> None:
        name = _name(call.func)
        writes = name in _WRITES or name.startswith(_WRITES_PREFIX)
        if writes or name in _READS:
            address = self._on(call, "pointer", "desc")
            self.accessed |= address
            self.written |= address if writes else frozenset()
        body = self._body(call)
        if body is not None:
            self.accessed |= self._given(call, body, body.accessed)
            self.written |= self._given(call, body, body.written)

    def _on(self, call: ast.Call, *names: str) -> Names:
        """Return the parameters behind the address of a call of Triton.

        The address is the object of a method (`x.store([0], v)`), or the first argument
        (`tl.store(x, v)`); `names` are keywords of the latter.
        """
        owner = self._of(call.func.value) if isinstance(call.func, ast.Attribute) else frozenset()
        first = (
            call.args[0]
            if call.args
            else next((k.value for k in call.keywords if k.arg in names), None)
        )
        return owner or (self._of(first) if first is not None else frozenset())

    def _body(self, call: ast.expr) -> _Body | None:
        """Return the analysis of the called function of the user, or None."""
        value = self._value(call.func) if isinstance(call, ast.Call) else None
        if id(value) in self._known:
            return self._known[id(value)]
        function = self._find(value)
        return None if function is None else _Body(value, function, self._find, self._known)

    def _value(self, expression: ast.expr) -> object:
        """Return the value of `name` or `module.name`, or None."""
        if isinstance(expression, ast.Name):
            return self._names.get(expression.id)
        if isinstance(expression, ast.Attribute):
            # Read `__dict__` only: `getattr` may run a module's `__getattr__`, which may do or
            # raise anything.
            return getattr(self._value(expression.value), "__dict__", {}).get(expression.attr)
        return None

    def _given(self, call: ast.Call, body: _Body, names: Names) -> Names:
        """Return the parameters behind the arguments that a callee takes as `names`."""
        bound = {
            **dict(zip(body.params, call.args, strict=False)),
            **{k.arg: k.value for k in call.keywords if k.arg},
        }
        return frozenset().union(
            *(self._of(value) for name, value in bound.items() if name in names)
        )

    def _parts(self, value: ast.expr) -> tuple[Names, ...]:
        """Return the parameters behind each part of a value; a tuple has several parts."""
        if isinstance(value, ast.Tuple | ast.List):
            return tuple(self._of(item) for item in value.elts)
        body = self._body(value)
        if isinstance(value, ast.Call) and body is not None:
            return tuple(self._given(value, body, names) for names in body.returned)
        if isinstance(value, ast.IfExp):
            return _joined(self._parts(value.body), self._parts(value.orelse))
        return (self._of(value),)

    def _of(self, value: ast.expr) -> Names:
        """Return the parameters that an address is based on; those in its offset do not count."""
        match value:
            case ast.Name(id=name):
                return self._roots.get(name, frozenset())
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                # The address is usually on the left of its offset. If the left side is not based on
                # a parameter, it may be on the right.
                return self._of(left) or self._of(right)
            case ast.BinOp(left=left, op=ast.Sub()):
                return self._of(left)
            case ast.NamedExpr(value=inner):
                return self._of(inner)
            case ast.Subscript(value=inner, slice=place):
                # `ptrs[:, None]` is the whole value, `places(x, y)[1]` one part.
                parts = self._parts(inner)
                index = place.value if isinstance(place, ast.Constant) else None
                return (
                    parts[index]
                    if isinstance(index, int) and index < len(parts)
                    else frozenset().union(*parts)
                )
            case ast.Call(func=ast.Attribute(attr=name)) if name in _SAME:
                return self._on(value, "base")
            case ast.Call(func=ast.Attribute(attr="where"), args=[_, one, other]):
                return self._of(one) | self._of(other)
            case ast.IfExp():
                return frozenset().union(*self._parts(value))
            case ast.Call() if self._body(value) is not None:
                return frozenset().union(*self._parts(value))
            case ast.Call(func=ast.Name(id=name)) if name in _SAME:  # a name imported from Triton
                return self._on(value, "base")
        return frozenset()


def _joined(one: tuple[Names, ...], other: tuple[Names, ...]) -> tuple[Names, ...]:
    """Return the parts of a value that is one of two.

    If their numbers of parts differ, the result is a single part with all parameters.
    """
    if not one or not other:
        return one or other
    if len(one) != len(other):
        return (frozenset().union(*one, *other),)
    return tuple(a | b for a, b in zip(one, other, strict=True))


def _name(called: ast.expr) -> str:
    match called:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""
