"""Follow a kernel's calls into functions of the project, with what each call passes."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType

from tilec.frontends.tile.bodies import Bodies, Body, functions_in, named, scope_of
from tilec.frontends.tile.values import Values
from tilec.frontends.tools.python_errors import node_location
from tilec_runtime.errors import Diagnostic

# A kernel with more distinct calls is not followed at all.
_MAX_CALLS = 200


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One or more calls of a function with equal arguments.

    Attributes:
        values: what the function's expressions mean in this call.
        notes: location of the first such call, and of the calls around it.
    """

    values: Values
    notes: tuple[Diagnostic, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Followed:
    """A function all of whose calls through `names` of other followed functions are known.

    Attributes:
        body: the function.
        calls: its distinct calls.
        names: dotted names in its source that mean followed functions and are only called.
    """

    body: Body
    calls: tuple[Call, ...]
    names: Mapping[str, FunctionType]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """The call graph of a kernel.

    Attributes:
        functions: the kernel, then the functions that calls are followed into.
        others: functions that may be called in a way that cannot be followed.
    """

    functions: tuple[Followed, ...]
    others: tuple[Body, ...]


def follow(kernel: Body, values: Values, bodies: Bodies) -> Calls:
    """Follow the calls of a kernel and of the functions that it calls."""
    found = _Follower(bodies).follow(kernel, values)
    if found is None:
        found = {kernel.function: Followed(body=kernel, calls=(Call(values=values),), names={})}
    rest: dict[FunctionType, None] = {}
    for item in found.values():
        for node, value in named(item.body.node, scope_of(item.body.function)):
            if not isinstance(value, FunctionType) or ast.unparse(node) not in item.names:
                rest.update(dict.fromkeys(functions_in(value)))
    return Calls(functions=tuple(found.values()), others=tuple(bodies.reachable(rest)))


class _Follower:
    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._names: dict[FunctionType, dict[str, FunctionType]] = {}

    def follow(self, kernel: Body, values: Values) -> dict[FunctionType, Followed] | None:
        """Return the followed functions, or None if there are too many calls."""
        queue = [(kernel, Call(values=values))]
        bodies = {kernel.function: kernel}
        calls: dict[FunctionType, dict[object, Call]] = {kernel.function: {(): queue[0][1]}}
        for count, (body, call) in enumerate(queue):  # the loop appends to the queue
            if count > _MAX_CALLS:
                return None
            for callee, passed in self._calls_in(body, call):
                bodies.setdefault(callee.function, callee)
                known = calls.setdefault(callee.function, {})
                key = tuple(sorted(passed.values.given.items(), key=lambda item: item[0]))
                if key not in known:
                    known[key] = passed
                    queue.append((callee, passed))
        return {
            function: Followed(
                body=body, calls=tuple(calls[function].values()), names=self._names_of(body)
            )
            for function, body in bodies.items()
        }

    def _calls_in(self, body: Body, call: Call) -> Iterator[tuple[Body, Call]]:
        names = self._names_of(body)
        for node in ast.walk(body.node):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) not in names:
                continue
            callee = call.values.callee(node.func)
            if callee is None:
                continue
            at, excerpt = node_location(self._bodies.texts, body.file, node)
            what = f"called from here, in {body.function.__name__}"
            note = Diagnostic(message=what, location=at, severity="note", excerpt=excerpt)
            inside = call.values.inside(callee, node)
            yield callee, Call(values=inside, notes=(note, *call.notes))

    def _names_of(self, body: Body) -> dict[str, FunctionType]:
        if body.function not in self._names:
            self._names[body.function] = _followable(body, self._bodies)
        return self._names[body.function]


def _followable(body: Body, bodies: Bodies) -> dict[str, FunctionType]:
    """Return the dotted names of project functions that a function only calls.

    A function that is also passed on, alone or with its module, may be called in unknown ways.
    """
    values = Values(body.node, scope_of(body.function), {}, bodies)
    called = {id(node.func) for node in ast.walk(body.node) if isinstance(node, ast.Call)}
    inner = {id(node.value) for node in ast.walk(body.node) if isinstance(node, ast.Attribute)}
    found: dict[str, FunctionType] = {}
    # Free variables cannot be given another value, which the compiled copy needs.
    passed_on = set(body.function.__code__.co_freevars)
    for node in ast.walk(body.node):
        if not isinstance(node, ast.Name | ast.Attribute) or id(node) in inner:
            continue
        value = values.resolved(node)
        if (
            id(node) in called
            and bodies.to_follow(value) is not None
            and _through_modules(node, values)
        ):
            found[ast.unparse(node)] = value
            continue
        for part in _prefixes(node):
            kind = ModuleType if part is node else FunctionType
            if isinstance(values.resolved(part), kind | FunctionType):
                passed_on.add(ast.unparse(part))
    return {name: function for name, function in found.items() if not passed_on & _heads(name)}


def _heads(name: str) -> set[str]:
    """Return `a`, `a.b` and `a.b.c` for `a.b.c`."""
    parts = name.split(".")
    return {".".join(parts[: count + 1]) for count in range(len(parts))}


def _prefixes(node: ast.expr) -> Iterator[ast.expr]:
    yield node
    if isinstance(node, ast.Attribute):
        yield from _prefixes(node.value)


def _through_modules(node: ast.expr, values: Values) -> bool:
    return not isinstance(node, ast.Attribute) or (
        isinstance(values.resolved(node.value), ModuleType) and _through_modules(node.value, values)
    )
