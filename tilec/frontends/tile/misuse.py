"""Find code of a safe kernel that bypasses the safe language."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tilec.frontends.tile import api
from tilec.frontends.tile.bodies import Body, scope_of
from tilec.frontends.tile.safe import Access, SafeParam
from tilec.frontends.tile.values import Values
from tilec.frontends.tools.python_errors import located, node_location
from tilec_runtime.errors import Diagnostic

# Prefix of the fields of the language's objects.
_PRIVATE = "_tl_"
READ_ONLY = (
    "a tl.Ref is only read, by tiles: to write it, declare it tl.Mut with the tile of a "
    "block, such as tl.Mut[tl.float32, TILE] for a vector or tl.Mut[T, (BM, BN)], "
    "and read with load_tile(index, shape)"
)


def reaching_around(body: Body, texts: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yield an error for each expression of a function that could reach a raw array."""
    values = Values(body.node, scope_of(body.function), {})
    calls = [node for node in ast.walk(body.node) if isinstance(node, ast.Call)]
    # A name that is written out is seen below.
    plain = {
        id(call.func)
        for call in calls
        if len(call.args) > 1 and isinstance(call.args[1], ast.Constant)
    }
    for node in ast.walk(body.node):
        what, hint = "", "declare the parameter tl.Ptr[T] where the kernel has to"
        match node:
            case ast.Attribute(attr=name) if name.startswith(_PRIVATE):
                what = f"{ast.unparse(node)} reaches around the safe language"
            case ast.keyword(arg=str(name)) if name.startswith(_PRIVATE):
                what = f"{name} is a part that a launch alone sets"
            case ast.Constant(value=str(name)) if name.startswith(_PRIVATE):
                what = f"{name!r} names what the safe language keeps to itself"
            case ast.Name() | ast.Attribute() if (
                _is_getattr(node, values) and id(node) not in plain
            ):
                what = "getattr with a computed name could reach around the safe language"
                hint = "write the attribute out"
            case ast.Call(func=function):
                what, hint = _call(function, values)
        if what:
            yield located(texts, node_location(texts, body.file, node)[0], what, hint=hint)


def stores_to_refs(body: Body, values: Values, texts: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yield an error, worded like the compiler's, for each store to a read-only parameter."""
    for node in ast.walk(body.node):
        if isinstance(node, ast.Attribute) and node.attr in ("store", "store_tile"):
            param = values.of(node.value)
            if isinstance(param, SafeParam) and param.access is Access.REF:
                at, what = node_location(texts, body.file, node)[0], f"no attribute {node.attr!r}"
                yield located(texts, at, f"'Ref' object has {what}", hint=READ_ONLY)


def results(body: Body, texts: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yield an error for each value that a kernel returns: a launch discards it."""
    left: list[ast.AST] = [*body.node.body]
    while left:
        node = left.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            at = node_location(texts, body.file, node)[0]
            hint = "y.store(tile) writes the block's tile of an output y"
            yield located(texts, at, "a kernel returns nothing", hint=hint)
        elif not isinstance(node, ast.FunctionDef | ast.Lambda):
            left += ast.iter_child_nodes(node)


def _is_getattr(node: ast.Name | ast.Attribute, values: Values) -> bool:
    return (isinstance(node, ast.Name) and node.id == "getattr") or values.resolved(node) is getattr


def _call(function: ast.expr, values: Values) -> tuple[str, str]:
    """Refuse calls of kernels, and of classes whose objects only a launch makes."""
    lang, name = api.lang(), ast.unparse(function)
    called = values.resolved(function)
    if isinstance(called, lang.Kernel):
        hint = "put what both do into a function without @tl.kernel"
        return f"{name} is a kernel, which only a launch calls", hint
    if called in (lang.Mut, lang.MappedMut, lang.SpanMut, lang.Ref, lang.Ptr, lang.Place):
        return f"{name} is made by a launch alone", "take it as a parameter"
    return "", ""
