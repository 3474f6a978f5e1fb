"""Declares a kernel of the safe language: signature, misuses, proofs and demands, brought together
in one declaration.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilec.frontends.tile import api
from tilec.frontends.tile.alike import of_outputs
from tilec.frontends.tile.bodies import Bodies, Body, scope_of
from tilec.frontends.tile.calls import Followed, follow
from tilec.frontends.tile.demands import Demands, grid_of, same_grid
from tilec.frontends.tile.misuse import reaching_around
from tilec.frontends.tile.proof import Proof, Prover, Site, elsewhere, is_access
from tilec.frontends.tile.safe import OUTPUTS, OWNED, Access, SafeParam, signature_of
from tilec.frontends.tile.signature import FunctionParam
from tilec.frontends.tile.values import Values, parameters
from tilec.frontends.tools.modules import LoadedModule
from tilec.frontends.tools.python_errors import definition_location, function_node
from tilec.model.alike import unstated
from tilec.model.declaration import AxisUse, KernelDecl, ParamDecl
from tilec_runtime.errors import CompileError, Diagnostic, Location
from tilec_runtime.model.safety import Fact, Guarantee, Region, Safety

_KINDS = {Access.SCALAR: "scalar", Access.CONST: "constant"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """A function whose calls are all known: its accesses, and the dotted names in it that stand for
    other such functions, and for classes whose methods are such.
    """

    function: Any
    sites: tuple[Site, ...]
    names: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SafeKernel:
    """What compiling a kernel of the safe language takes: `own` is its function, `helpers` are
    those that its calls are followed into.
    """

    own: Compiled
    helpers: tuple[Compiled, ...]
    params: tuple[SafeParam, ...]
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
        raise CompileError(
            what,
            diagnostics=(Diagnostic(message=what, location=Location(file=module.source.path)),),
        )
    at = definition_location(texts, file, node)
    signature = signature_of(function, texts)
    wrong = [*signature.problems, *_outputs(signature.params)]
    if wrong:
        raise _refusal(name, wrong)
    found = _analysed(
        name,
        kernel,
        Body(function, node, file),
        signature.params,
        Demands(signature.params, node, at, texts),
        texts,
    )
    outputs = [param for param in signature.params if param.access in OUTPUTS]
    meeting = [same for proof in found.proofs for same in proof.alike]
    ranks = {param.name: param.rank for param in signature.params}
    decl = KernelDecl(
        name=name,
        qualified=function.__qualname__,
        location=at,
        doc=inspect.cleandoc(function.__doc__ or ""),
        params=tuple(_declared(param) for param in signature.params),
        axes=tuple(_axes(signature.params, found.axes)),
        grid=grid_of(signature.params),
        grid_free=any(param.access is Access.MAPPED for param in outputs),
        requires=tuple(
            dict.fromkeys(
                (
                    *found.required,
                    *same_grid(signature.params),
                    *(n for p in found.proofs for n in p.requires),
                )
            )
        ),
        alike=tuple(
            unstated(
                dict.fromkeys((*of_outputs(signature.params), *meeting)), found.required, ranks
            )
        ),
        safety=Safety(
            facts=(
                *_facts(signature.params),
                *(f for proof in found.proofs for f in proof.facts),
                *(fact for fact, _ in found.unseen),
            ),
            regions=tuple(
                Region(param=p.name, tile=_region(p), mapped=p.access is Access.MAPPED)
                for p in outputs
            ),
        ),
        unproven=(
            *(said for proof in found.proofs for said in proof.unproven),
            *(said for fact, said in found.unseen if fact.guarantee is Guarantee.KERNEL),
        ),
    )
    own, *helpers = [
        Compiled(function=item.body.function, sites=proof.sites, names=item.names)
        for item, proof in zip(found.functions, found.proofs, strict=True)
    ]
    return SafeKernel(
        own=own,
        helpers=tuple(helpers),
        params=signature.params,
        hints=kernel.hints,
        requires=found.required,
    ), decl


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Analysis:
    """What the source of a kernel and of the functions that it calls says.

    Attributes:
        functions: the kernel, and the functions that calls are followed into; `proofs` are of each.
        unseen: accesses of functions whose calls are not all followed.
        axes: uses of axis variables.
        required: the kernel's own demands.
    """

    functions: Sequence[Followed]
    proofs: Sequence[Proof]
    unseen: Sequence[tuple[Fact, Diagnostic]]
    axes: Sequence[AxisUse]
    required: tuple[str, ...]


def _analysed(
    name: str,
    kernel: Any,
    body: Body,
    params: Sequence[SafeParam],
    demands: Demands,
    texts: dict[str, str],
) -> _Analysis:
    """Raises CompileError for misuse, and for demands that cannot be read."""
    bodies = Bodies(texts)
    calls = follow(
        body, Values(body.node, scope_of(body.function), parameters(params), bodies), bodies
    )
    reached = list(bodies.reachable([body.function]))
    axes = [use for item in reached for use in _variables(item)]
    required = demands.read(kernel.preconditions, [use.name for use in axes])
    groups: list[tuple[Diagnostic, ...]] = [(problem,) for problem in demands.problems]
    groups += [(problem,) for item in reached for problem in reaching_around(item, texts)]
    if groups:
        raise _refusal(name, groups)
    return _Analysis(
        functions=calls.functions,
        proofs=[
            Prover(item.body, texts, params, helper=item.body is not body).prove(item.calls)
            for item in calls.functions
        ],
        unseen=[found for item in calls.others for found in _unfollowed(item, texts)],
        axes=axes,
        required=tuple(required),
    )


def _refusal(name: str, problems: Sequence[Diagnostic | tuple[Diagnostic, ...]]) -> CompileError:
    """An error of all problems in the order of the source, each once and with its notes."""
    groups = [problem if isinstance(problem, tuple) else (problem,) for problem in problems]
    first = {group[0]: group for group in reversed(groups)}
    ordered = sorted(first, key=_order)
    diagnostics = tuple(part for problem in ordered for part in first[problem])
    return CompileError(
        f"kernel {name!r} is not safe as it is written: {ordered[0].message}",
        diagnostics=diagnostics,
    )


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


def _variables(body: Body) -> Iterator[AxisUse]:
    """Axis variables that a function's code names."""
    values = Values(body.node, scope_of(body.function), {})
    for inner in ast.walk(body.node):
        if not isinstance(inner, ast.Name | ast.Attribute):
            continue
        found = values.resolved(inner)
        if isinstance(found, api.lang().Axis):
            where = f"{ast.unparse(inner)} at {body.file}:{inner.lineno}"
            yield AxisUse(
                name=found.name, dtype=isinstance(found, api.lang().DTypeAxis), where=where
            )


def _region(param: SafeParam) -> tuple[str, ...]:
    return tuple(
        f"{param.name}.shape[{axis}]" if axis == param.axis else extent
        for axis, extent in enumerate(param.tile)
    )


def _order(found: Diagnostic) -> tuple[str, int, int]:
    at = found.location
    return (at.file, at.line, at.column) if at else ("", 0, 0)


def _argument(param: SafeParam) -> FunctionParam:
    kinds: dict[str, type] = {"int": int, "float": float, "bool": bool}
    constant = param.access is Access.CONST
    annotation = api.Annotation(constant=constant, inner=kinds[param.dtype] if constant else None)
    return FunctionParam(
        name=param.name,
        annotation=annotation,
        default=param.default,
        location=param.location,
        excerpt=param.excerpt,
    )


def _declared(param: SafeParam) -> ParamDecl:
    out = {Access.REF: False, Access.PTR: True}.get(
        param.access, True if param.access in OUTPUTS else None
    )
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
    """A kernel's blocks own one region each, or a share each: what one grid cannot do for both is
    refused.
    """
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
                what = (
                    f"{param.name}: a block reads and writes its own tile of {tile}, and no other"
                )
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
        yield Fact(
            guarantee=by,
            what="elements of tiles beyond the end of an array are padding when loaded, and left out when stored",
        )


def _unfollowed(body: Body, texts: Mapping[str, str]) -> Iterator[tuple[Fact, Diagnostic]]:
    """Accesses of a function that may be called in ways that nobody can follow."""
    values = Values(body.node, scope_of(body.function), {})
    for call in ast.walk(body.node):
        if is_access(call, values) and isinstance(call, ast.Call):
            yield elsewhere(
                call,
                f"it is in the helper function {body.function.__name__}",
                body.file,
                texts,
                helper=True,
            )
