"""Reads the kernels of an executed module: names, parameters with their places, docstrings."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
from collections.abc import Mapping
from typing import Any

from tilec.frontends.tile import api
from tilec.frontends.tile.bodies import resolved
from tilec.frontends.tile.safe_declare import SafeKernel, declare_safe
from tilec.frontends.tools.kernels import definition
from tilec.frontends.tools.modules import LoadedModule
from tilec.frontends.tools.python_errors import located, written_parameters
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec_runtime.errors import CompileError

# Calls of cuda.tile whose first argument is written to.
_WRITES = ("store", "store_advanced_indexing", "scatter")
_WRITES_PREFIX = "atomic_"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TileKernel:
    """A kernel of a module: cuda.tile's object, annotations of parameters, and the declaration.

    A kernel of the safe language has `safe` in place of the object, which is made for each variant.
    """

    kernel: Any
    annotations: Mapping[str, api.Annotation]
    decl: KernelDecl
    safe: SafeKernel | None = None


def read(module: LoadedModule, name: str, value: object) -> TileKernel | None:
    """Return the kernel that a module's attribute is, or None.

    The declaration of a kernel with errors has them as `refused`.
    """
    # Modules without kernels of the language need not wait for it.
    language = sys.modules.get("tilec.lang")
    try:
        if api.is_kernel(value):
            return _kernel(module, name, value)
        if language is not None and isinstance(value, language.Kernel):
            kernel, decl = declare_safe(module, name, value)
            return TileKernel(kernel=None, annotations=kernel.annotations, decl=decl, safe=kernel)
    except CompileError as exc:
        refused = KernelDecl.refuse(name, module.source.path, exc.diagnostics)
        return TileKernel(kernel=None, annotations={}, decl=refused)
    return None


def _kernel(module: LoadedModule, name: str, kernel: Any) -> TileKernel:
    function = api.function_of(kernel)
    node, at = definition(module, function)
    try:
        annotations = api.annotations_of(function)
    except Exception as exc:
        what = (
            f"the annotations of kernel {name!r} cannot be evaluated: {type(exc).__name__}: {exc}"
        )
        raise CompileError(what, diagnostics=(located(module.texts, at, what),)) from exc
    written = _written(node, function.__globals__) if node is not None else set()
    places = written_parameters(module.texts, at.file, node)
    params = []
    for item in inspect.signature(function).parameters.values():
        annotation = annotations.get(item.name, api.Annotation())
        place, type_text = places.get(item.name, (at, ""))
        default = item.default if isinstance(item.default, int | float) else None
        plain = annotation.plain or api.PLAIN.get(type(default), "")
        kind = "constant" if annotation.constant else "tensor"
        if kind == "tensor" and (annotation.scalar or plain):
            kind = "scalar"
        params.append(
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
        name=name, qualified=function.__qualname__, location=at, doc=doc, params=tuple(params)
    )
    return TileKernel(kernel=kernel, annotations=annotations, decl=decl)


def _written(node: ast.FunctionDef, scope: Mapping[str, Any]) -> set[str]:
    """Return the names that the body passes to a writing function of cuda.tile; helper functions
    are not analyzed.
    """
    names = set()
    writers = {
        id(value)
        for name, value in vars(api.cuda_tile()).items()
        if name in _WRITES or name.startswith(_WRITES_PREFIX)
    }
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and id(resolved(call.func, scope)) in writers:
            target = next((k.value for k in call.keywords if k.arg == "array"), None)
            target = call.args[0] if call.args else target
            if isinstance(target, ast.Name):
                names.add(target.id)
    return names
