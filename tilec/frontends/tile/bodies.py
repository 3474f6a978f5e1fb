"""Finds the sources of functions that a kernel may call, and resolves their names."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

from tilec.frontends.tools.kernels import captured
from tilec.frontends.tools.python_errors import function_node


@dataclasses.dataclass(frozen=True, slots=True)
class Body:
    """A function of the project with its source; `file` is its name in messages."""

    function: FunctionType
    node: ast.FunctionDef
    file: str


class Bodies:
    """The functions of a project; `texts` are its sources.

    Functions of other packages are left out: these may change without a new declaration of the
    project's kernels.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def of(self, function: FunctionType) -> Body | None:
        """Return a function with its source, or None if it is not the project's."""
        code = function.__code__
        node = function_node(self._texts.get(code.co_filename, ""), code.co_firstlineno)
        return None if node is None else Body(function, node, code.co_filename)

    def to_follow(self, value: Any) -> Body | None:
        """Return a function of the project, if its calls can be analyzed, or None."""
        if type(value) is not FunctionType or value.__code__.co_flags & inspect.CO_GENERATOR:
            return None
        body = self.of(value)
        # A lambda, or a function made by a decorator, may stand on the line of another one.
        if body is None or body.node.name != value.__code__.co_name:
            return None
        return None if hasattr(value, "__wrapped__") else body

    def reachable(self, root: FunctionType) -> Iterator[Body]:
        """Yield a function and, recursively, functions and methods that it names."""
        queue, seen = [root], {root}
        while queue:
            body = self.of(queue.pop())
            if body is None:
                continue
            yield body
            scope = scope_of(body.function)
            for node in ast.walk(body.node):
                if isinstance(node, ast.Name | ast.Attribute):
                    new = [
                        item for item in _functions_in(resolved(node, scope)) if item not in seen
                    ]
                    seen.update(new)
                    queue += new


def scope_of(function: FunctionType) -> dict[str, Any]:
    """Return the values of names that a function does not bind: builtins, globals and closure."""
    free = dict.fromkeys(function.__code__.co_freevars)  # some may not be bound yet
    return {**vars(builtins), **function.__globals__, **free, **captured(function)}


def resolved(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    """Return the value that a dotted name of a scope means, or None."""
    if isinstance(node, ast.Name):
        return scope.get(node.id)
    base = resolved(node.value, scope) if isinstance(node, ast.Attribute) else None
    if isinstance(node, ast.Attribute) and isinstance(base, ModuleType | type):
        return getattr(base, node.attr, None)
    return None


def _functions_in(value: Any) -> Iterator[FunctionType]:
    """Yield the functions that calling a value may run: itself, or the methods of a class."""
    value = inspect.unwrap(value) if isinstance(value, FunctionType) else value
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, type):
        for item in vars(value).values():
            inner = item.fget if isinstance(item, property) else getattr(item, "__func__", item)
            if isinstance(inner, FunctionType):
                yield inner
