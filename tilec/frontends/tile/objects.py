"""Objects of dataclasses that a function keeps to itself: each use stands in its source, and so
does each call of their methods.
"""

from __future__ import annotations

import ast
import dataclasses

from tilec.frontends.tile.bodies import Bodies, Body, methods_of, scope_of
from tilec.frontends.tile.values import Instance, Values

Parents = dict[int, ast.AST]


def held_classes(body: Body, bodies: Bodies) -> dict[str, type]:
    """The dataclasses of which a function makes objects that nothing else ever sees, by the names
    that it makes them by.

    A class that is reached through its module is none: the module might be passed on.
    """
    values, parents = Values(body.node, scope_of(body.function), {}, bodies), _parents(body.node)
    found: dict[str, type] = {}
    refused: set[str] = set(body.function.__code__.co_freevars)
    for node in ast.walk(body.node):
        cls = bodies.to_hold(values.resolved(node)) if isinstance(node, ast.Name) else None
        if not isinstance(node, ast.Name) or cls is None:
            continue
        found[node.id] = cls
        made = parents.get(id(node))
        if not (
            isinstance(made, ast.Call)
            and made.func is node
            and _is_kept(made, cls, values, parents, body)
        ):
            refused.add(node.id)
    return {
        name: cls
        for name, cls in found.items()
        if name not in refused and _keeps_itself(cls, bodies)
    }


def _is_kept(made: ast.Call, cls: type, values: Values, parents: Parents, body: Body) -> bool:
    """Whether an object is used where it is made, or has one name, of which each use is a field's
    or a method's.
    """
    user = parents.get(id(made))
    if isinstance(user, ast.Attribute):
        return _is_use(user, cls, parents)
    if not (
        isinstance(user, ast.Assign)
        and user.value is made
        and len(user.targets) == 1
        and isinstance(user.targets[0], ast.Name)
    ):
        return False
    name = user.targets[0]
    if name.id in body.function.__code__.co_freevars or name.id in scope_of(body.function):
        return False
    uses = [
        node
        for node in ast.walk(body.node)
        if isinstance(node, ast.Name) and node.id == name.id and node is not name
    ]
    known = all(
        isinstance(value := values.of(node), Instance) and value.cls is cls for node in uses
    )
    return known and all(
        isinstance(parent := parents.get(id(node)), ast.Attribute) and _is_use(parent, cls, parents)
        for node in uses
    )


def _is_use(node: ast.Attribute, cls: type, parents: Parents) -> bool:
    """Whether `object.name` reads a field, or is called as a method."""
    if not isinstance(node.ctx, ast.Load):
        return False
    if node.attr in {field.name for field in dataclasses.fields(cls)}:
        return True
    call = parents.get(id(node))
    return node.attr in methods_of(cls) and isinstance(call, ast.Call) and call.func is node


def _keeps_itself(cls: type, bodies: Bodies) -> bool:
    """Whether no method lets its object out of sight: each has it by one name, of which each use is
    a field's or a method's.
    """
    for method in methods_of(cls).values():
        body = bodies.to_follow(method)
        if (
            body is None
            or not body.node.args.args
            or body.node.args.posonlyargs
            or body.node.decorator_list
        ):
            return False
        own, parents = body.node.args.args[0].arg, _parents(body.node)
        uses = [
            node for node in ast.walk(body.node) if isinstance(node, ast.Name) and node.id == own
        ]
        bound = [
            arg
            for node in ast.walk(body.node)
            if isinstance(node, ast.arguments)
            for arg in _names(node)
            if arg == own
        ]
        seen = all(
            isinstance(parent := parents.get(id(node)), ast.Attribute)
            and _is_use(parent, cls, parents)
            for node in uses
        )
        if (
            not seen
            or len(bound) != 1
            or any(isinstance(node, ast.Global | ast.Nonlocal) for node in ast.walk(body.node))
        ):
            return False
        if (
            method.__code__.co_freevars
        ):  # `super`, `__class__`, or a class made inside of a function
            return False
    return True


def _names(spec: ast.arguments) -> list[str]:
    return [
        arg.arg
        for arg in (
            *spec.posonlyargs,
            *spec.args,
            *spec.kwonlyargs,
            *filter(None, (spec.vararg, spec.kwarg)),
        )
    ]


def _parents(node: ast.AST) -> Parents:
    return {
        id(child): parent for parent in ast.walk(node) for child in ast.iter_child_nodes(parent)
    }
