"""Read the Triton kernels of an executed module."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from typing import Any

from tilec.frontends.tools.kernels import definition
from tilec.frontends.tools.modules import LoadedModule
from tilec.frontends.tools.python_errors import parameter_nodes, written_parameters
from tilec.frontends.triton import api
from tilec.frontends.triton.heuristics import Computed
from tilec.frontends.triton.writes import Function, accesses
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec_runtime.model.kernel import AxisValue

NO_DESCRIPTOR = "{!r} is a tensor descriptor, and the manifest passes something else"
HOW = 'args = ["descriptor(x, BM, BK)", …]: a tensor, and the extents of the box that one load takes, as the kernel has them'


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TritonKernel:
    """A kernel of a module.

    Attributes:
        kernel: Triton's object of it.
        params: the parameters of its function.
        decl: the declaration.
        described: names of the tensor descriptors, by annotation or by use in the body.
    """

    kernel: Any
    params: tuple[api.Parameter, ...]
    decl: KernelDecl
    described: frozenset[str] = frozenset()


def read(module: LoadedModule, name: str, value: object) -> TritonKernel | None:
    """Return the kernel that a module's attribute is, or None."""
    kernel = api.kernel_of(value)
    if kernel is None:
        return None
    function = api.function_of(kernel)
    node, at = definition(module, function)
    locations = written_parameters(module.texts, at.file, node)
    addresses, stored = accesses(kernel, _function)
    params = api.parameters_of(kernel)
    configs, computed = api.configs_of(value, params)
    ranks = _described(node) if node is not None else {}
    decls = []
    for param in params:
        location, text = locations.get(param.name, (at, ""))
        kind = (
            "constant"
            if param.constant
            else "tensor"
            if param.pointer or not param.dtype
            else "scalar"
        )
        rule = computed.get(param.name, Computed((), ""))
        decls.append(
            ParamDecl(
                name=param.name,
                # An annotation without a dtype leaves the type to the manifest.
                type=text if param.constant or param.dtype else "",
                kind=kind,
                dtype=param.dtype,
                out=True if param.name in stored and kind == "tensor" else None,
                default=param.default,
                location=location,
                rank=ranks.get(param.name, -1),
                reads=rule.reads,
                formula=rule.formula,
                address=param.name in addresses,
            )
        )
    doc = inspect.cleandoc(function.__doc__ or "")
    decl = KernelDecl(
        name=name,
        qualified=name,
        location=at,
        doc=doc,
        params=tuple(decls),
        configs=tuple(
            tuple((axis, _plain(given)) for axis, given in config.items()) for config in configs
        ),
    )
    described = frozenset(p.name for p in params if p.descriptor).union(ranks)
    return TritonKernel(kernel=kernel, params=params, decl=decl, described=described)


def _plain(value: object) -> AxisValue:
    """Return a constant as an axis value; a Triton dtype becomes tilec's name."""
    if value is None:
        return api.NONE
    if isinstance(value, bool | int | float | str):
        return value
    return api.dtype_name(value) or str(value)


def _function(value: object) -> Function | None:
    """Return the syntax and the globals of a `@triton.jit` function of the user, or None."""
    kernel = api.kernel_of(value)
    if kernel is None:
        return None
    nodes = ast.parse(api.text_of(kernel)).body
    node = next((each for each in nodes if isinstance(each, ast.FunctionDef)), None)
    return None if node is None else Function(node, api.function_of(kernel).__globals__)


def _described(node: ast.FunctionDef) -> dict[str, int]:
    """Return the parameters that the body uses as tensor descriptors, with their ranks.

    Such a use is a load or store with a list of offsets, as in `x.load([i, j])`; addresses have no
    such methods. The rank is -1 if the number of offsets varies or is unknown.

    A parameter that the body reassigns, as in `x = tl.make_tensor_descriptor(x, …)`, may be an
    address, and is left out; Triton reports errors of it.
    """
    names = {arg.arg for arg in parameter_nodes(node)}
    names -= {
        part.id
        for part in ast.walk(node)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }
    ranks: dict[str, int] = {}
    for part in ast.walk(node):
        match part:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="load" | "store"),
                args=[ast.List(elts=offsets), *_],
            ) if name in names:
                count = (
                    -1
                    if any(isinstance(offset, ast.Starred) for offset in offsets)
                    else len(offsets)
                )
                ranks[name] = count if ranks.get(name, count) == count else -1
    return ranks
