"""Find the outputs of a safe kernel that it reads before it writes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilec.frontends.tile.calls import Call
from tilec.frontends.tile.safe import OUTPUTS, SafeParam

_LOADS = ("load", "load_tile")
_STORES = ("store", "store_tile")


def read_first(kernel: Call) -> frozenset[str]:
    """Return the outputs that a kernel loads unconditionally before any store.

    Loads under a condition or in a called function do not count: they may read a value that the
    kernel stored itself.
    """
    found, settled = set[str](), set[str]()
    for node, certain in _calls(kernel.body.node):
        function = node.func
        param = kernel.values.of(function.value) if isinstance(function, ast.Attribute) else None
        if isinstance(function, ast.Attribute) and isinstance(param, SafeParam):
            if param.access not in OUTPUTS or param.name in settled:
                continue
            if function.attr in _STORES:
                settled.add(param.name)
            elif function.attr in _LOADS and certain:
                found.add(param.name)
        elif kernel.values.callee(function) is not None:
            given = (*node.args, *(keyword.value for keyword in node.keywords))
            values = (kernel.values.of(value) for value in given)
            settled |= {value.name for value in values if isinstance(value, SafeParam)}
    return frozenset(found)


def _calls(node: ast.AST, certain: bool = True) -> Iterator[tuple[ast.Call, bool]]:
    """Yield the calls in a node in order of execution, each with whether it is unconditional."""
    inside = certain and not isinstance(node, ast.If | ast.IfExp | ast.BoolOp | ast.While)
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, inside)
    if isinstance(node, ast.Call):
        yield node, certain
