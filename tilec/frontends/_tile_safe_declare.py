"""Declares a kernel of the safe language: signature, misuses, proofs and demands, brought together in one declaration."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilec.errors import CompileError, Diagnostic, Location
from tilec.frontends import _tile_api as api
from tilec.frontends._tile_demands import Demands, grid_of, same_grid
from tilec.frontends._tile_errors import characters, function_node, line_of
from tilec.frontends._tile_misuse import Helper, helper_misuses, misuses, reachable
from tilec.frontends._tile_modules import LoadedModule
from tilec.frontends._tile_proof import Proof, Prover, Site, elsewhere, is_access
from tilec.frontends._tile_safe import OUTPUTS, OWNED, Access, SafeParam, signature_of
from tilec.frontends._tile_signature import FunctionParam
from tilec.frontends._tile_values import Values, scope_of
from tilec.model.kernel import AxisUse, KernelDecl, ParamDecl
from tilec.model.safety import Fact, Guarantee, Region, Safety

_KINDS = {Access.SCALAR: "scalar", Access.CONST: "constant"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SafeKernel:
    """What compiling a kernel of the safe language takes."""

    function: Any
    params: tuple[SafeParam, ...]
    sites: tuple[Site, ...]
    hints: Mapping[str, Any]
    requires: tuple[str, ...]

    @property
    def arguments(self) -> tuple[FunctionParam, ...]:
        """Its parameters as those of its entry point."""
        return tuple(_argument(param) for param in self.params)


def declare_safe(module: LoadedModule, name: str, kernel: Any) -> tuple[SafeKernel, KernelDecl]:
    """A kernel and its declaration.

    Raises:
        CompileError: every problem that shows without compiling, each at its place.
    """
    function = inspect.unwrap(kernel.function)
    file, texts = function.__code__.co_filename, dict(module.texts)
    node = function_node(texts.get(file, ""), function.__code__.co_firstlineno)
    if node is None:
        what = f"the source of kernel {name!r} is not in the project"
        raise CompileError(what, diagnostics=(Diagnostic(message=what, location=Location(file=module.source.path)),))
    at = _definition(node, file, texts)
    signature = signature_of(function, texts)
    problems = [*signature.problems, *_outputs(signature.params)]
    values = Values(node, scope_of(function), {param.name: param for param in signature.params})
    proof = Proof(sites=(), requires=(), facts=(), unproven=())
    demands = Demands(signature.params, node, at, texts)
    if not problems:
        problems += misuses(node, values, file, texts)
        helpers = list(reachable(function, texts))
        named = [*_variables(function, node, file), *(use for h in helpers for use in _variables(h.function, h.node, h.file))]
        required = demands.read(kernel.preconditions, [use.name for use in named])
        problems += demands.problems
        for helper in helpers:
            problems += helper_misuses(helper.node, _values_of(helper), helper.file, texts)
    if problems:
        unique = tuple(sorted(dict.fromkeys(problems), key=_order))
        raise CompileError(f"kernel {name!r} is not safe as it is written: {unique[0].message}", diagnostics=unique)
    proof = Prover(values, file, texts, signature.params).prove(node)
    called = [item for helper in helpers for item in _helper_checks(helper, texts)]
    requires = dict.fromkeys((*required, *same_grid(signature.params), *proof.requires))
    outputs = [param for param in signature.params if param.access in OUTPUTS]
    decl = KernelDecl(
        name=name,
        qualified=function.__qualname__,
        location=at,
        doc=inspect.cleandoc(function.__doc__ or ""),
        params=tuple(_declared(param) for param in signature.params),
        reads=module.reads,
        axes=tuple(_axes(signature.params, named)),
        grid=grid_of(signature.params),
        grid_free=any(param.access is Access.MAPPED for param in outputs),
        requires=tuple(requires),
        safety=Safety(
            facts=(*_facts(signature.params), *proof.facts, *(fact for fact, _ in called)),
            regions=tuple(Region(param=p.name, tile=_region(p), mapped=p.access is Access.MAPPED) for p in outputs),
        ),
        unproven=(*proof.unproven, *(said for fact, said in called if fact.guarantee is Guarantee.KERNEL)),
    )
    return SafeKernel(function=function, params=signature.params, sites=proof.sites, hints=kernel.hints, requires=tuple(required)), decl


def _axes(params: Sequence[SafeParam], named: Sequence[AxisUse]) -> Iterator[AxisUse]:
    """Every axis, by its first uses: in the signature, else in the code."""
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


def _variables(function: Any, node: ast.FunctionDef, file: str) -> Iterator[AxisUse]:
    """Axis variables that a function's code names."""
    values = Values(node, scope_of(function), {})
    for inner in ast.walk(node):
        if not isinstance(inner, ast.Name | ast.Attribute):
            continue
        found = values.resolved(inner)
        if isinstance(found, api.lang().Axis):
            where = f"{ast.unparse(inner)} at {file}:{inner.lineno}"
            yield AxisUse(name=found.name, dtype=isinstance(found, api.lang().DTypeAxis), where=where)


def _region(param: SafeParam) -> tuple[str, ...]:
    return tuple(f"{param.name}.shape[{axis}]" if axis == param.axis else extent for axis, extent in enumerate(param.tile))


def _order(found: Diagnostic) -> tuple[str, int, int]:
    at = found.location
    return (at.file, at.line, at.column) if at else ("", 0, 0)


def _values_of(helper: Helper) -> Values:
    return Values(helper.node, scope_of(helper.function), {})


def _definition(node: ast.FunctionDef, file: str, texts: Mapping[str, str]) -> Location:
    line = line_of(texts, file, node.lineno)
    return Location(file=file, line=node.lineno, column=characters(line, node.col_offset) + len("def ") + 1)


def _argument(param: SafeParam) -> FunctionParam:
    kinds: dict[str, type] = {"int": int, "float": float, "bool": bool}
    constant = param.access is Access.CONST
    annotation = api.Annotation(constant=constant, inner=kinds[param.dtype] if constant else None)
    return FunctionParam(name=param.name, annotation=annotation, default=param.default, location=param.location, excerpt=param.excerpt)


def _declared(param: SafeParam) -> ParamDecl:
    out = {Access.REF: False, Access.PTR: True}.get(param.access, True if param.access in OUTPUTS else None)
    return ParamDecl(
        name=param.name,
        type=param.text,
        kind=_KINDS.get(param.access, "tensor"),
        dtype="" if param.access is Access.CONST else param.dtype,
        out=out,
        default=param.default,
        location=param.location,
        rank=param.rank,
    )


def _outputs(params: Sequence[SafeParam]) -> Iterator[Diagnostic]:
    """A kernel's blocks own one region each, or a share each: what one grid cannot do for both is refused."""
    owned = [param for param in params if param.access in OWNED]
    mapped = [param for param in params if param.access is Access.MAPPED]
    if owned and mapped:
        what = f"{owned[0].name} is a {owned[0].access.value}, and {mapped[0].name} a tl.MappedMut: one grid cannot give out both"
        yield Diagnostic(
            message=what,
            location=mapped[0].location,
            excerpt=mapped[0].excerpt,
            hint="make every output of a persistent kernel a tl.MappedMut",
        )


def _facts(params: Sequence[SafeParam]) -> Iterator[Fact]:
    by, none = Guarantee.CONSTRUCTION, Guarantee.NONE
    for param in params:
        tile = " x ".join(param.tile)
        match param.access:
            case Access.MUT:
                what = f"{param.name}: a block reads and writes its own tile of {tile}, and no other"
            case Access.SPAN:
                what = f"{param.name}: a block reads and writes its own tiles of {tile}, all along axis {param.axis}, and no others"
            case Access.MAPPED:
                what = f"{param.name}: a block reads and writes the tiles of {tile} that it owns, and no others"
            case Access.REF:
                what = f"{param.name} is only read"
            case Access.PTR:
                what = f"{param.name}: {param.text} lets every block read and write every element, in any order"
                yield Fact(guarantee=none, what=what, location=param.location)
                continue
            case _:
                continue
        yield Fact(guarantee=by, what=what, location=param.location)
    if any(param.access in (*OUTPUTS, Access.REF) for param in params):
        yield Fact(guarantee=by, what="elements of tiles beyond the end of an array are padding when loaded, and left out when stored")


def _helper_checks(helper: Helper, texts: Mapping[str, str]) -> Iterator[tuple[Fact, Diagnostic]]:
    values = _values_of(helper)
    for call in ast.walk(helper.node):
        if is_access(call, values) and isinstance(call, ast.Call):
            yield elsewhere(call, f"it is in the helper function {helper.function.__name__}", helper.file, texts, helper=True)
