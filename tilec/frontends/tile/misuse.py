"""Find code of a safe kernel that reaches around the safe language."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tilec.frontends.tile import api
from tilec.frontends.tile.bodies import Body, scope_of
from tilec.frontends.tile.proof import UNCHECKED
from tilec.frontends.tile.values import Values
from tilec.frontends.tools.python_errors import node_location
from tilec_runtime.errors import Diagnostic

# Fields of the language's objects, and methods that only proven accesses become.
FIELDS = (
    "_tl_array",
    "_tl_divisors",
    "_tl_index",
    "_tl_tile",
    "_tl_first",
    "_tl_strip",
    "_tl_of",
    "_tl_number",
    "_tl_axis",
    "_tl_single",
)
PRIVATE = (*FIELDS, *UNCHECKED.values())


def reaching_around(body: Body, texts: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yield an error for each expression of a function that could reach a raw array."""
    values = Values(body.node, scope_of(body.function), {})
    called = {id(node.func) for node in ast.walk(body.node) if isinstance(node, ast.Call)}
    for node in ast.walk(body.node):
        found = _private(node) or _alias(node, values, called)
        if found is None and isinstance(node, ast.Call):
            found = _call(node, values)
        if found is not None:
            at, excerpt = node_location(texts, body.file, node)
            yield Diagnostic(message=found[0], location=at, excerpt=excerpt, hint=found[1])


def _private(node: ast.AST) -> tuple[str, str] | None:
    if isinstance(node, ast.Attribute) and node.attr in PRIVATE:
        hint = "declare the parameter tl.Ptr[T] where the kernel has to"
        return f"{ast.unparse(node)} reaches around the safe language", hint
    if isinstance(node, ast.keyword) and node.arg in PRIVATE:
        return f"{node.arg} is a part that a launch alone sets", ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in PRIVATE:
        return f"{node.value!r} names what the safe language keeps to itself", ""
    return None


def _alias(node: ast.AST, values: Values, called: set[int]) -> tuple[str, str] | None:
    """Refuse another name for `getattr`, whose arguments could not be checked."""
    if isinstance(node, ast.expr) and id(node) not in called and _is_getattr(node, values):
        what = f"{ast.unparse(node)} under another name could reach around the safe language"
        return what, "write the attribute out"
    return None


def _call(node: ast.Call, values: Values) -> tuple[str, str] | None:
    """Refuse computed attributes, and calls of what only a launch makes or calls."""
    if _is_getattr(node.func, values) and not (
        len(node.args) > 1 and isinstance(node.args[1], ast.Constant)
    ):
        what = "getattr with a computed name could reach around the safe language"
        return what, "write the attribute out"
    name = ast.unparse(node.func)
    if name.rpartition(".")[2] in UNCHECKED and any(item.arg is None for item in node.keywords):
        what = f"{name} unpacks arguments: whether it is checked has to stand in the call"
        return what, "write them out"
    lang = api.lang()
    function = values.resolved(node.func)
    if isinstance(function, type) and function in (
        lang.Mut,
        lang.MappedMut,
        lang.SpanMut,
        lang.Ref,
        lang.Ptr,
        lang.Place,
    ):
        return f"{name} is made by a launch alone", "take it as a parameter"
    if isinstance(function, lang.Kernel):
        hint = "put what both do into a function without @tl.kernel"
        return f"{name} is a kernel, which only a launch calls", hint
    return None


def _is_getattr(node: ast.expr, values: Values) -> bool:
    return (isinstance(node, ast.Name) and node.id == "getattr") or values.resolved(node) is getattr
