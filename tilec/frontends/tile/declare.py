"""Reads the kernels of an executed module: names, parameters with their places, docstrings."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from tilec.frontends.tile import api
from tilec.frontends.tile.errors import missing_hint
from tilec.frontends.tile.safe_declare import SafeKernel, declare_safe
from tilec.frontends.tile.signature import FunctionParam
from tilec.frontends.tools.modules import LoadedModule
from tilec.frontends.tools.python_errors import (
    definition_location,
    function_node,
    line_of,
    located,
    written_parameters,
)
from tilec.frontends.tools.undefined import missing_attributes, undefined_names
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec_runtime.errors import CompileError, Location

# Calls of cuda.tile whose first argument is written to.
_WRITES = ("store", "store_advanced_indexing", "scatter")
_WRITES_PREFIX = "atomic_"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TileKernel:
    """A kernel of a module: cuda.tile's object, the parameters for `bind`, and the declaration.

    A kernel of the safe language has `safe` in place of the object, which is made for each variant.
    """

    kernel: Any
    params: tuple[FunctionParam, ...]
    decl: KernelDecl
    safe: SafeKernel | None = None


def declared(module: LoadedModule) -> dict[str, TileKernel]:
    """Return the kernels among the module's attributes, imported ones included, by attribute name in
    order of appearance.

    The declaration of a kernel with errors has them as `refused`.
    """
    language = sys.modules.get(
        "tilec.lang"
    )  # modules without kernels of the language need not wait for it
    safe: Any = language.Kernel if language is not None else ()
    found: dict[str, TileKernel] = {}
    with module.active():
        for name, value in vars(module.main).items():
            if not (api.is_kernel(value) or isinstance(value, safe)):
                continue
            try:
                plain = api.is_kernel(value)
                function = api.function_of(value) if plain else inspect.unwrap(value.function)
                found[name] = _declare(module, name, value, function)
            except CompileError as exc:
                refused = KernelDecl.refuse(name, module.source.path, exc.diagnostics)
                found[name] = TileKernel(kernel=None, params=(), decl=refused)
    return found


def _declare(module: LoadedModule, name: str, value: object, function: FunctionType) -> TileKernel:
    if api.is_kernel(value):
        made = _kernel(module, name, value)
    else:
        kernel, decl = declare_safe(module, name, value)
        made = TileKernel(kernel=None, params=kernel.arguments, decl=decl, safe=kernel)
    refused = (
        *undefined_names(function, module.texts),
        *missing_attributes(function, module.texts, ("cuda.tile", "tilec.lang"), missing_hint),
    )
    return dataclasses.replace(made, decl=dataclasses.replace(made.decl, refused=refused))


def _kernel(module: LoadedModule, name: str, kernel: Any) -> TileKernel:
    function = api.function_of(kernel)
    node, at = _definition(module, function)
    try:
        annotations = api.annotations_of(function)
    except Exception as exc:
        what = (
            f"the annotations of kernel {name!r} cannot be evaluated: {type(exc).__name__}: {exc}"
        )
        raise CompileError(what, diagnostics=(located(module.texts, at, what),)) from exc
    written = _written(node, function.__globals__) if node is not None else set()
    places = written_parameters(module.texts, at.file, node)
    params, decls = [], []
    for item in inspect.signature(function).parameters.values():
        annotation = annotations.get(item.name, api.Annotation())
        place, type_text = places.get(item.name, (at, ""))
        default = item.default if isinstance(item.default, int | float) else None
        plain = annotation.plain or api.PLAIN.get(type(default), "")
        kind = "constant" if annotation.constant else "tensor"
        if kind == "tensor" and (annotation.scalar or plain):
            kind = "scalar"
        params.append(
            FunctionParam(
                name=item.name,
                annotation=annotation,
                default=default,
                location=place,
                excerpt=line_of(module.texts, place.file, place.line),
            )
        )
        decls.append(
            ParamDecl(
                name=item.name,
                # The manifest may change the dtype of a Python number.
                type="" if kind == "scalar" and plain else type_text,
                kind=kind,
                dtype=annotation.scalar or (plain if kind == "scalar" else ""),
                out=True if item.name in written else None,
                default=default,
                location=place,
            )
        )
    doc = inspect.cleandoc(function.__doc__ or "")
    decl = KernelDecl(
        name=name, qualified=function.__qualname__, location=at, doc=doc, params=tuple(decls)
    )
    return TileKernel(kernel=kernel, params=tuple(params), decl=decl)


def _definition(
    module: LoadedModule, function: FunctionType
) -> tuple[ast.FunctionDef | None, Location]:
    """Return the function's node and location; the whole source if no project file has its text."""
    code = function.__code__
    node = function_node(module.texts.get(code.co_filename, ""), code.co_firstlineno)
    if node is None:
        return None, Location(file=module.source.path)
    return node, definition_location(module.texts, code.co_filename, node)


def _written(node: ast.FunctionDef, scope: Mapping[str, Any]) -> set[str]:
    """Return the names that the body passes to a writing function of cuda.tile; helper functions
    are not analyzed.
    """
    tile, names = api.cuda_tile(), set()
    writers = [
        value
        for name, value in vars(tile).items()
        if name in _WRITES or name.startswith(_WRITES_PREFIX)
    ]
    for call in ast.walk(node):
        match call:
            case ast.Call(func=ast.Name(id=name)):
                called = scope.get(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)):
                called = getattr(tile, attribute, None) if scope.get(name) is tile else None
            case _:
                continue
        if any(called is writer for writer in writers):
            target = next((k.value for k in call.keywords if k.arg == "array"), None)
            target = call.args[0] if call.args else target
            if isinstance(target, ast.Name):
                names.add(target.id)
    return names
