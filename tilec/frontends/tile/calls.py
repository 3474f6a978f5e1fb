"""Follow a kernel's calls into functions of the project, with what each call passes."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Mapping
from types import FunctionType

from tilec.frontends.tile.bodies import Body
from tilec.frontends.tile.values import Values
from tilec.frontends.tools.python_errors import located, node_location
from tilec_runtime.errors import Diagnostic

# Most distinct calls of a kernel that are followed; beyond it none is.
_MAX_CALLS = 200


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One or more calls of a function with equal arguments; the kernel itself counts as one.

    Attributes:
        body: the function.
        values: the values of its expressions in this call.
        notes: location of the first such call, and of the calls around it.
    """

    body: Body
    values: Values
    notes: tuple[Diagnostic, ...] = ()


def follow(kernel: Body, values: Values, texts: Mapping[str, str]) -> list[Call]:
    """Return a kernel and its distinct calls, at any depth; the kernel alone if there are too many."""
    found = [Call(body=kernel, values=values)]
    seen: set[tuple[FunctionType, tuple[object, ...]]] = set()
    for call in found:  # the loop appends to the list
        for inner in _calls_in(call, texts):
            key = (inner.body.function, tuple(sorted(inner.values.given.items(), key=_name)))
            if key not in seen:
                seen.add(key)
                found.append(inner)
        if len(found) > _MAX_CALLS:
            return found[:1]
    return found


def _name(item: tuple[str, object]) -> str:
    return item[0]


def _calls_in(call: Call, texts: Mapping[str, str]) -> Iterator[Call]:
    for node in ast.walk(call.body.node):
        callee = call.values.callee(node.func) if isinstance(node, ast.Call) else None
        if callee is None or not isinstance(node, ast.Call):
            continue
        at, _ = node_location(texts, call.body.file, node)
        what = f"called from here, in {call.body.function.__name__}"
        note = located(texts, at, what, severity="note")
        inside = call.values.inside(callee, node)
        yield Call(body=callee, values=inside, notes=(note, *call.notes))
