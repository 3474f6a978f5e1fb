"""Reads the Triton kernels of an executed module: names, parameters with their places, what they write, docstrings."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from tilec.errors import Location
from tilec.frontends import _triton_api as api
from tilec.frontends._tile_errors import characters, function_node, line_of
from tilec.frontends._tile_modules import LoadedModule
from tilec.model.kernel import KernelDecl, ParamDecl

_WRITES = ("store", "store_tensor_descriptor")
_WRITES_PREFIX = "atomic_"
DESCRIPTOR = "{!r} is a tensor descriptor, and the manifest passes something else"
HOW = 'args = ["descriptor(x, BM, BK)", …]: a tensor, and the extents of the box that one load takes, as the kernel has them'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """A kernel of a module: Triton's object, the parameters of its function, and the declaration.

    `described` are parameters that are tensor descriptors, by their annotation or by how the body uses them.
    """

    kernel: Any
    params: tuple[api.Parameter, ...]
    decl: KernelDecl
    described: frozenset[str] = frozenset()


def declared(module: LoadedModule) -> dict[str, Declared]:
    """Every kernel among the module's attributes, imported ones too, by attribute name in order of appearance."""
    found: dict[str, Declared] = {}
    with module.active():
        for name, value in vars(module.main).items():
            kernel = api.kernel_of(value)
            if kernel is None:
                continue
            found[name] = _kernel(module, name, kernel)
    return found


def _kernel(module: LoadedModule, name: str, kernel: Any) -> Declared:
    function = api.function_of(kernel)
    node, at = _definition(module, kernel)
    written = _written(node) if node is not None else set()
    params = api.parameters_of(kernel)
    described = frozenset(p.name for p in params if p.descriptor) | (_described(node) if node is not None else frozenset())
    written |= _stored(node, described) if node is not None else set()
    decls = []
    for param in params:
        place, text = _parameter(module.texts, node, at, param.name)
        kind = "constant" if param.constant else "tensor" if param.pointer or not param.dtype else "scalar"
        decls.append(
            ParamDecl(
                name=param.name,
                # An annotation that says neither a dtype nor a pointer leaves it to the manifest.
                type=text if param.constant or param.dtype else "",
                kind=kind,
                dtype=param.dtype,
                out=True if param.name in written and kind == "tensor" else None,
                default=param.default,
                location=place,
            )
        )
    doc = inspect.cleandoc(function.__doc__ or "")
    decl = KernelDecl(name=name, qualified=name, location=at, doc=doc, params=tuple(decls), reads=module.reads)
    return Declared(kernel=kernel, params=params, decl=decl, described=described)


def _definition(module: LoadedModule, kernel: Any) -> tuple[ast.FunctionDef | None, Location]:
    """The function's node and place; the source as a whole where it was not written in a project file."""
    file = api.function_of(kernel).__code__.co_filename
    node = function_node(module.texts.get(file, ""), api.definition_line(kernel))
    if node is None:
        return None, Location(file=module.source.path, line=1)
    line = line_of(module.texts, file, node.lineno)
    return node, Location(file=file, line=node.lineno, column=characters(line, node.col_offset) + len("def ") + 1)


def _parameter(texts: Mapping[str, str], node: ast.FunctionDef | None, at: Location, name: str) -> tuple[Location, str]:
    """Place and annotation (as written) of a parameter."""
    for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if node is not None else ():
        if arg.arg == name:
            column = characters(line_of(texts, at.file, arg.lineno), arg.col_offset) + 1
            return Location(file=at.file, line=arg.lineno, column=column), ast.unparse(arg.annotation) if arg.annotation else ""
    return at, ""


def _written(node: ast.FunctionDef) -> set[str]:
    """Parameters through which the body stores; what helper functions store cannot be seen here.

    An address is computed from a parameter in plain arithmetic: what is loaded or called in between is an offset or a value.
    """
    roots: dict[str, set[str]] = {arg.arg: {arg.arg} for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    written: set[str] = set()
    # Twice: in a loop, a name that is used above may be bound below.
    for _ in range(2):
        for part in ast.walk(node):
            if isinstance(part, ast.Assign | ast.AnnAssign) and part.value is not None:
                targets = part.targets if isinstance(part, ast.Assign) else [part.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        roots.setdefault(target.id, set()).update(_roots(part.value, roots))
            elif isinstance(part, ast.Call) and _writes(part.func):
                first = part.args[0] if part.args else next((k.value for k in part.keywords if k.arg == "pointer"), None)
                written |= _roots(first, roots) if first is not None else set()
    return written


def _described(node: ast.FunctionDef) -> frozenset[str]:
    """Parameters that are loaded from or stored to at a list of offsets, as in `x.load([i, j])`: addresses have no such methods."""
    names = {arg.arg for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    found = set()
    for part in ast.walk(node):
        match part:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="load" | "store"), args=[ast.List(), *_]) if name in names:
                found.add(name)
    return frozenset(found)


def _stored(node: ast.FunctionDef, described: frozenset[str]) -> set[str]:
    """Descriptors whose methods write: `x.store([i, j], tile)`, `x.atomic_add(…)`, `x.scatter(…)`."""
    found = set()
    for part in ast.walk(node):
        match part:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if name in described:
                if method in _WRITES or method == "scatter" or method.startswith(_WRITES_PREFIX):
                    found.add(name)
    return found


def _roots(value: ast.expr, roots: Mapping[str, set[str]]) -> set[str]:
    """Parameters that an address is computed from: those that it starts with, not those in the offset."""
    match value:
        case ast.Name(id=name):
            return set(roots.get(name, ()))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            # Addresses stand in front of their offsets; where the left side is none of a parameter's, it may be the other way round.
            return _roots(left, roots) or _roots(right, roots)
        case ast.BinOp(left=left, op=ast.Sub()):
            return _roots(left, roots)
        case ast.IfExp(body=body, orelse=orelse):
            return _roots(body, roots) | _roots(orelse, roots)
        case ast.Call(func=ast.Attribute(value=inner, attr="to" | "cast")):
            return _roots(inner, roots)
        case ast.Call(func=ast.Attribute(attr="make_block_ptr" | "advance" | "multiple_of" | "max_contiguous"), args=[first, *_]):
            return _roots(first, roots)
        case ast.Call(func=ast.Attribute(attr="make_block_ptr"), keywords=given):
            return next((_roots(k.value, roots) for k in given if k.arg == "base"), set())
    return set()


def _writes(called: ast.expr) -> bool:
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name in _WRITES or name.startswith(_WRITES_PREFIX)
