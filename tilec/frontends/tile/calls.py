"""Follows a kernel's calls into the functions of the project: which calls can be followed, and what
each passes.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

from tilec.frontends.tile.bodies import Bodies, Body, functions_in, methods_of, named, scope_of
from tilec.frontends.tile.objects import held_classes
from tilec.frontends.tile.values import Instance, Values
from tilec.frontends.tools.python_errors import characters, line_of
from tilec_runtime.errors import Diagnostic, Location

_MOST = 200  # calls with arguments of their own that one kernel's source is followed into


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """What one or more calls pass to a function.

    Attributes:
        values: what expressions of the function stand for then.
        certain: whether what is written there outside of branches is compiled, for all that can be
            told.
        notes: where the first such call stands, and those around it.
    """

    values: Values
    certain: bool = True
    notes: tuple[Diagnostic, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Followed:
    """A function all whose calls, from where `names` of other followed functions stand for it, are
    known.

    Attributes:
        body: the function.
        calls: its calls, of equal arguments once.
        names: the dotted names in its own source that stand for followed functions, and that it
            does nothing with but call them.
        classes: those that stand for dataclasses of which it makes objects, and does nothing with
            these but read fields and call methods.
    """

    body: Body
    calls: tuple[Call, ...]
    names: Mapping[str, FunctionType]
    classes: Mapping[str, type] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """What is known of a kernel's calls.

    Attributes:
        functions: those that calls are followed into; the kernel itself comes first.
        others: every function that may be reached in another way, which says nothing of what is
            passed.
    """

    functions: tuple[Followed, ...]
    others: tuple[Body, ...]


def follow(kernel: Body, values: Values, bodies: Bodies) -> Calls:
    """Go through a kernel, the functions that it calls, and theirs; into none of them where there
    are too many.
    """
    found = _Follower(bodies).follow(kernel, values)
    if found is None:
        found = {kernel.function: Followed(body=kernel, calls=(Call(values=values),), names={})}
    rest: dict[FunctionType, None] = {}
    for item in found.values():
        for node, value in named(item.body.node, scope_of(item.body.function)):
            if ast.unparse(node) not in (
                item.names if isinstance(value, FunctionType) else item.classes
            ):
                rest.update(dict.fromkeys(functions_in(value)))
    return Calls(functions=tuple(found.values()), others=tuple(bodies.reachable(rest)))


class _Follower:
    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._names: dict[FunctionType, dict[str, FunctionType]] = {}
        self._classes: dict[FunctionType, dict[str, type]] = {}
        self._calls: dict[FunctionType, dict[Any, Call]] = {}

    def follow(self, kernel: Body, values: Values) -> dict[FunctionType, Followed] | None:
        """The followed functions, None for too many calls."""
        queue = [(kernel, Call(values=values))]
        functions = {kernel.function: kernel}
        self._calls[kernel.function] = {(): queue[0][1]}
        for count, (body, call) in enumerate(queue):  # which grows
            if count > _MOST:
                return None
            for callee, key, passed in self._passed(body, call, kernel.function):
                functions.setdefault(callee.function, callee)
                known = self._calls.setdefault(callee.function, {})
                if key not in known:
                    known[key] = passed
                    queue.append((callee, passed))
        return {
            function: Followed(
                body=body,
                calls=tuple(self._calls[function].values()),
                names=self._names_of(body),
                classes=self._classes_of(body),
            )
            for function, body in functions.items()
        }

    def _passed(
        self, body: Body, call: Call, kernel: FunctionType
    ) -> Iterator[tuple[Body, Any, Call]]:
        names = self._names_of(body)
        branches = in_branches(body.node) if body.function is not kernel else frozenset()
        for node in ast.walk(body.node):
            if not isinstance(node, ast.Call) or not isinstance(
                node.func, ast.Name | ast.Attribute
            ):
                continue
            if ast.unparse(node.func) not in names and not self._is_method(
                body, call.values, node.func
            ):
                continue
            callee = call.values.callee(node.func)
            if callee is None:
                continue
            inside = call.values.inside(callee, node)
            certain = call.certain and id(node) not in branches
            note = _called_from(node, body, self._bodies.texts)
            key = (certain, tuple(sorted(inside.given.items(), key=lambda item: item[0])))
            yield callee, key, Call(values=inside, certain=certain, notes=(note, *call.notes))

    def _is_method(self, body: Body, values: Values, function: ast.Name | ast.Attribute) -> bool:
        """Whether a call is of a method of an object that the function made itself, or, in a
        method, of its own object's.
        """
        base = values.of(function.value) if isinstance(function, ast.Attribute) else None
        if not isinstance(base, Instance) or values.method(function) is None:
            return False
        return (
            base.cls in self._classes_of(body).values()
            or body.function in methods_of(base.cls).values()
        )

    def _classes_of(self, body: Body) -> dict[str, type]:
        if body.function not in self._classes:
            self._classes[body.function] = held_classes(body, self._bodies)
        return self._classes[body.function]

    def _names_of(self, body: Body) -> dict[str, FunctionType]:
        if body.function not in self._names:
            self._names[body.function] = _followable(body, self._bodies)
        return self._names[body.function]


def _followable(body: Body, bodies: Bodies) -> dict[str, FunctionType]:
    """The dotted names of functions that a function calls, and does nothing else with: nor with the
    modules that they are in.
    """
    values = Values(body.node, scope_of(body.function), {}, bodies)
    called = {id(node.func) for node in ast.walk(body.node) if isinstance(node, ast.Call)}
    inner = {id(node.value) for node in ast.walk(body.node) if isinstance(node, ast.Attribute)}
    found: dict[str, FunctionType] = {}
    passed_on: set[str] = set()
    for node in ast.walk(body.node):
        if not isinstance(node, ast.Name | ast.Attribute) or id(node) in inner:
            continue
        meant = values.resolved(node)
        if (
            id(node) in called
            and bodies.to_follow(meant) is not None
            and _through_modules(node, values)
        ):
            found[ast.unparse(node)] = meant
            continue
        for part in _prefixes(node):
            kind = ModuleType if part is node else FunctionType
            if isinstance(values.resolved(part), kind | FunctionType):
                passed_on.add(ast.unparse(part))
    passed_on.update(
        body.function.__code__.co_freevars
    )  # which are not among the names that can be given another meaning
    return {name: function for name, function in found.items() if not passed_on & _heads(name)}


def _heads(name: str) -> set[str]:
    """`a.b.c` and what is in front of its dots."""
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


def in_branches(node: ast.FunctionDef) -> frozenset[int]:
    """What a function may do or not, as `id`s of nodes."""
    kinds = (ast.If, ast.IfExp, ast.Match, ast.BoolOp, ast.FunctionDef, ast.Lambda)
    found = {
        id(part)
        for inner in ast.walk(node)
        if isinstance(inner, kinds) and inner is not node
        for part in ast.walk(inner)
    }
    return frozenset(found)


def _called_from(node: ast.Call, body: Body, texts: Mapping[str, str]) -> Diagnostic:
    line = line_of(texts, body.file, node.lineno)
    place = Location(file=body.file, line=node.lineno, column=characters(line, node.col_offset) + 1)
    return Diagnostic(
        message=f"called from here, in {body.function.__name__}",
        location=place,
        severity="note",
        excerpt=line,
    )
