"""Declare a kernel of the safe language: signature, misuses, proofs and preconditions."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

from tilec.frontends.tile import api
from tilec.frontends.tile.alike import of_outputs
from tilec.frontends.tile.bodies import Bodies, Body, scope_of
from tilec.frontends.tile.calls import follow
from tilec.frontends.tile.demands import grid_of, preconditions, same_grid
from tilec.frontends.tile.misuse import reaching_around, results, stores_to_refs
from tilec.frontends.tile.proof import Proof, promises, prove
from tilec.frontends.tile.reading import read_first
from tilec.frontends.tile.safe import OUTPUTS, OWNED, Access, SafeParam, signature_of
from tilec.frontends.tile.values import Values, parameters
from tilec.frontends.tools.files import fault
from tilec.frontends.tools.kernels import definition
from tilec.frontends.tools.modules import LoadedModule
from tilec.frontends.tools.python_errors import located
from tilec.model.alike import unstated
from tilec.model.declaration import AxisUse, KernelDecl, ParamDecl
from tilec_runtime.errors import CompileError, Diagnostic
from tilec_runtime.model.safety import Fact, Guarantee, Region, Safety

_KINDS = {Access.SCALAR: "scalar", Access.CONST: "constant"}
_CONSTANTS: dict[str, type] = {"int": int, "float": float, "bool": bool}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SafeKernel:
    """A kernel of the safe language, from which its entry point is made.

    Attributes:
        function: the user's function.
        checked: names of arrays whose accesses keep their checks.
        params: its parameters.
        hints: compiler hints of its author.
        requires: its own preconditions.
    """

    function: FunctionType
    checked: frozenset[str]
    params: tuple[SafeParam, ...]
    hints: Mapping[str, Any]
    requires: tuple[str, ...]

    @property
    def annotations(self) -> dict[str, api.Annotation]:
        """Return the annotations of its constants; its entry point has no others."""
        return {
            param.name: api.Annotation(constant=True, inner=_CONSTANTS[param.dtype])
            for param in self.params
            if param.access is Access.CONST
        }


def declare_safe(module: LoadedModule, name: str, kernel: Any) -> tuple[SafeKernel, KernelDecl]:
    """Return a kernel and its declaration.

    Raises:
        CompileError: every error that shows without compiling, each with its location.
    """
    texts = module.texts
    bodies = Bodies(texts)
    body = bodies.of(inspect.unwrap(kernel.function))
    # A lambda may stand on the line of another function.
    if body is None or body.node.name != body.function.__code__.co_name:
        what = f"the source of kernel {name!r} is not in the project"
        raise fault(module.source.path, what, line=0)
    _, at = definition(module, body.function)
    params, unread = signature_of(body, texts)
    if wrong := [*unread, *_mixed_outputs(params, texts)]:
        raise _refusal(name, wrong)
    reached = list(bodies.reachable(body.function))
    uses = [use for item in reached for use in _variables(item)]
    names = [use.name for use in uses]
    required, problems = preconditions(kernel.preconditions, params, names, body.node, at, texts)
    misuses = (problem for item in reached for problem in reaching_around(item, texts))
    values = Values(body.node, scope_of(body.function), parameters(params), bodies)
    stores = stores_to_refs(body, values, texts)
    if wrong := [*problems, *misuses, *results(body, texts), *stores]:
        raise _refusal(name, wrong)
    calls = follow(body, values, texts)
    proof, read = prove(calls, params, texts), read_first(calls[0])
    if proof.wrong:
        raise _refusal(name, proof.wrong)
    same = unstated(
        dict.fromkeys((*of_outputs(params), *proof.alike)),
        required,
        {param.name: param.rank for param in params},
    )
    decl = KernelDecl(
        name=name,
        qualified=body.function.__qualname__,
        location=at,
        doc=inspect.cleandoc(body.function.__doc__ or ""),
        params=tuple(_declared(param, read=param.name in read) for param in params),
        axes=tuple(_axes(params, uses)),
        grid=grid_of(params),
        grid_free=any(param.access is Access.MAPPED for param in params),
        requires=tuple(dict.fromkeys((*required, *same_grid(params), *proof.requires))),
        alike=tuple(same),
        safety=_safety(params, proof, [f for item in reached for f in promises(item, texts)]),
        unproven=proof.unproven,
        unfollowed=proof.unfollowed,
    )
    safe = SafeKernel(
        function=body.function,
        checked=proof.checked,
        params=params,
        hints=kernel.hints,
        requires=required,
    )
    return safe, decl


def _refusal(name: str, problems: Sequence[Diagnostic]) -> CompileError:
    """Return an error of all problems, each once, in the order of the source."""
    ordered = sorted(dict.fromkeys(problems), key=_order)
    what = f"kernel {name!r} is not safe as it is written: {ordered[0].message}"
    return CompileError(what, diagnostics=tuple(ordered))


def _order(found: Diagnostic) -> tuple[str, int, int]:
    at = found.location
    return (at.file, at.line, at.column) if at else ("", 0, 0)


def _axes(params: Sequence[SafeParam], named: Sequence[AxisUse]) -> Iterator[AxisUse]:
    """Yield every axis with a use of it: in the signature, else the first one in the code."""
    known = set()
    for param in params:
        for axis in param.axes:
            known.add(axis)
            yield AxisUse(name=axis, dtype=axis == param.dtype, where=f"{param.name}: {param.text}")
    constants = {param.name for param in params if param.access is Access.CONST}
    for use in named:
        if use.name not in known | constants:
            known.add(use.name)
            yield use


def _variables(body: Body) -> Iterator[AxisUse]:
    """Yield the axis variables that a function's code names."""
    lang, values = api.lang(), Values(body.node, scope_of(body.function), {})
    for inner in ast.walk(body.node):
        found = values.resolved(inner) if isinstance(inner, ast.Name | ast.Attribute) else None
        if isinstance(found, lang.Axis) and isinstance(inner, ast.expr):
            where = f"{ast.unparse(inner)} at {body.file}:{inner.lineno}"
            yield AxisUse(name=found.name, dtype=isinstance(found, lang.DTypeAxis), where=where)


def _declared(param: SafeParam, *, read: bool) -> ParamDecl:
    written = param.access in (*OUTPUTS, Access.PTR)
    return ParamDecl(
        name=param.name,
        type=param.text,
        kind=_KINDS.get(param.access, "tensor"),
        dtype="" if param.access is Access.CONST else param.dtype,
        out=None if param.access in _KINDS else written,
        default=param.default,
        location=param.location,
        rank=param.rank,
        read=read,
    )


def _mixed_outputs(params: Sequence[SafeParam], texts: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Refuse outputs with one region per block beside mapped outputs."""
    owned = [param for param in params if param.access in OWNED]
    mapped = [param for param in params if param.access is Access.MAPPED]
    if owned and mapped:
        what = f"{owned[0].name} is a {owned[0].access.value}, and {mapped[0].name} a tl.MappedMut: one grid cannot give out both"
        hint = "make every output of a persistent kernel a tl.MappedMut"
        yield located(texts, mapped[0].location, what, hint=hint)


def _safety(params: Sequence[SafeParam], proof: Proof, promised: Sequence[Fact]) -> Safety:
    regions = tuple(
        Region(
            param=param.name,
            tile=tuple(
                f"{param.name}.shape[{axis}]" if axis == param.axis else extent
                for axis, extent in enumerate(param.tile)
            ),
            mapped=param.access is Access.MAPPED,
        )
        for param in params
        if param.access in OUTPUTS
    )
    return Safety(facts=(*_facts(params), *proof.facts, *promised), regions=regions)


def _facts(params: Sequence[SafeParam]) -> Iterator[Fact]:
    """Yield the facts of each array that its annotation states."""
    for param in params:
        tile, guarantee = " x ".join(param.tile), Guarantee.CONSTRUCTION
        match param.access:
            case Access.MUT:
                what = f": a block reads and writes its own tile of {tile}, and no other"
            case Access.SPAN:
                what = f": a block reads and writes its own tiles of {tile}, all along axis {param.axis}, and no others"
            case Access.MAPPED:
                what = f": a block reads and writes the tiles of {tile} that it owns, and no others"
            case Access.REF:
                what = " is only read"
            case Access.PTR:
                what = f": {param.text} lets every block read and write every element, in any order"
                guarantee = Guarantee.NONE
            case _:
                continue
        yield Fact(guarantee=guarantee, what=f"{param.name}{what}", location=param.location)
    if any(param.access in (*OUTPUTS, Access.REF) for param in params):
        yield Fact(
            guarantee=Guarantee.CONSTRUCTION,
            what="elements of tiles beyond the end of an array are padding when loaded, and left out when stored",
        )
