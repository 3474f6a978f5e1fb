"""Find the source of functions that a kernel may call, and the meaning of its names."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import linecache
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType, ModuleType
from typing import Any

from tilec.frontends.tile import api, patches
from tilec.frontends.tools.python_errors import function_node


@dataclasses.dataclass(frozen=True, slots=True)
class Body:
    """A function with its source; `file` is its name in messages."""

    function: FunctionType
    node: ast.FunctionDef
    file: str


class Bodies:
    """The functions of one module's kernels. `texts` are those of the project's files; those of
    other packages are added.

    Other packages may be exchanged without the project's declarations being made anew, so nothing
    is concluded from their text.
    """

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts
        self._own = frozenset(texts)
        self._known: dict[FunctionType, Body | None] = {}

    def of(self, function: FunctionType) -> Body | None:
        """A function's source; None for the language's own, and where it cannot be read."""
        if function not in self._known:
            file = self._readable(function)
            node = function_node(self.texts.get(file, ""), function.__code__.co_firstlineno)
            self._known[function] = None if node is None else Body(function, node, file)
        return self._known[function]

    def to_follow(self, value: Any) -> Body | None:
        """The source of a function of the project that calls can be followed into; None for
        anything else.
        """
        if (
            type(value) is not FunctionType
            or value.__code__.co_filename not in self._own
            or value.__code__.co_flags & inspect.CO_GENERATOR
        ):
            return None
        body = self.of(value)
        # A lambda, or a function made by a decorator, may stand on the line of another one.
        return (
            body
            if body is not None
            and body.node.name == value.__code__.co_name
            and not hasattr(value, "__wrapped__")
            else None
        )

    def reachable(self, roots: Iterable[FunctionType]) -> Iterator[Body]:
        """The functions with these, and those that their source names, and so on; the methods of
        classes count.

        Those of the project, and those of other packages that know of the language.
        """
        queue = list(dict.fromkeys(roots))
        seen = set(queue)
        while queue:
            body = self.of(queue.pop())
            if body is None:
                continue
            yield body
            for _, value in named(body.node, scope_of(body.function)):
                for item in functions_in(value):
                    if item not in seen:
                        seen.add(item)
                        queue.append(item)

    def _readable(self, function: FunctionType) -> str:
        """The name of a function's file, with its text among `texts` where it may concern the
        language.
        """
        file = function.__code__.co_filename
        if file in self.texts or api.is_trusted(file):
            return file
        text = "".join(linecache.getlines(file))
        shown = patches.installed_name(file)
        if "tilec.lang" in text or "load_tile" in text:
            self.texts.setdefault(shown, text)
        return shown


def scope_of(function: Any) -> dict[str, Any]:
    """What names mean that a function does not bind itself: its module's, and those of functions
    around it.
    """
    found = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not bound yet
            found[name] = None
    return found


def named(node: ast.FunctionDef, scope: Mapping[str, Any]) -> Iterator[tuple[ast.expr, Any]]:
    """The dotted names in a function, and what they mean in its scope."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and inner.id in scope:
            yield inner, scope[inner.id]
        elif isinstance(inner, ast.Attribute):
            yield inner, _dotted(inner, scope)


def functions_in(value: Any) -> Iterator[FunctionType]:
    """The functions that calling a value may run: itself, what it wraps, the methods of a class."""
    value = inspect.unwrap(value) if isinstance(value, FunctionType) else value
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, type):
        for item in vars(value).values():
            inner = item.fget if isinstance(item, property) else getattr(item, "__func__", item)
            if isinstance(inner, FunctionType):
                yield inner


def _dotted(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return scope.get(node.id)
    base = _dotted(node.value, scope) if isinstance(node, ast.Attribute) else None
    return (
        getattr(base, node.attr, None)
        if isinstance(node, ast.Attribute) and isinstance(base, ModuleType | type)
        else None
    )
