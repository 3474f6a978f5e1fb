"""Resolve a kernel's parameters from manifest and source to one signature."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from tilec.manifest.types import Kernel, ParamTable
from tilec.model.argument import parse_abi
from tilec.model.cpp import cut, dtype_of
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.plan.args import DESCRIBED, descriptor_reads, passed_name
from tilec.plan.proposals import args_needed
from tilec.plan.report import Report
from tilec_runtime.model import expr
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.signature import Param, ParamKind
from tilec_runtime.model.suggest import did_you_mean, nearest

_PLACE = re.compile(r"\{([^{}]*)\}")


def suggest(name: str, known: Sequence[str]) -> str:
    """Return a did-you-mean, or the list of known names."""
    return did_you_mean(name, known) or (f"; it has {', '.join(known)}" if known else "")


def misspelt_axis(name: str, axes: Iterable[str], decl: KernelDecl) -> str:
    """Return a did-you-mean for an axis of the source, from axes that the source lacks."""
    known = {*(p.name for p in decl.params), *(use.name for use in decl.axes)}
    near = nearest(name, [axis for axis in axes if axis not in known])
    return f"; did you mean it by {near!r}" if near else ""


def symbol_axes(symbol: str) -> tuple[str, ...]:
    """Return the names of axes in a symbol, in order."""
    return tuple(_PLACE.findall(symbol))


def params_of(kernel: Kernel, decl: KernelDecl, report: Report) -> tuple[Param, ...] | None:
    """Return the launcher's parameters in order, or None after a report of an unknown one."""
    if unknown := _undescribed(kernel, decl):
        report(args_needed(kernel, decl, unknown))
        return None
    sources = _taken(kernel, decl, report) if kernel.args is None else _passed(kernel, decl)
    known = _check_names(kernel, decl, sources, report)
    params = [
        _Parameter(name, kernel, decl, source, report).resolved()
        for name, source in sources.items()
    ]
    resolved = tuple(param for param in params if param is not None)
    return resolved if known and len(resolved) == len(params) else None


def _undescribed(kernel: Kernel, decl: KernelDecl) -> list[ParamDecl]:
    """Return the parameters of a Triton kernel without `args` that nothing describes."""
    if kernel.language != "triton" or kernel.args is not None:
        return []
    known = {*dict(kernel.matrix.axes), *(table.name for table in kernel.params)}
    declared = (param for param in decl.params if param.given and param.name not in known)
    return [param for param in declared if not param.type and param.rank < 0]


def _taken(kernel: Kernel, decl: KernelDecl, report: Report) -> Mapping[str, ParamDecl | None]:
    """Return the source's parameters that launches give.

    Tables of parameters that the source lacks, and tensors that only `args` can pass, are reported.
    """
    axes = dict(kernel.matrix.axes)
    taken = [param for param in decl.params if param.given and param.name not in axes]
    names = [param.name for param in taken]
    captured = [param.name for param in decl.captures if param.kind == "scalar"]
    for table in kernel.params:
        if table.name not in names:
            message = f"kernel {decl.name!r} has no parameter {table.name!r}"
            report(message + suggest(table.name, [*names, *captured]), "params", table.name)
    for param in taken:
        if kernel.language == "triton" and param.rank >= 0:
            report(f"the source takes {descriptor_reads(param)}: {DESCRIBED}")
    return {param.name: param for param in taken}


def _passed(kernel: Kernel, decl: KernelDecl) -> Mapping[str, ParamDecl | None]:
    """Return the launcher's parameters, each with the source's if an entry of `args` passes it.

    Their order is that of `params`, or of `args` if it passes parameters without a table.
    """
    tables = dict.fromkeys(table.name for table in kernel.params)
    axes = dict(kernel.matrix.axes)
    declared = [param for param in decl.params if param.given]
    sources: dict[str, ParamDecl] = {}
    for text, param in zip(kernel.args or (), declared, strict=True):
        name = passed_name(parse_abi(text)[1])
        if name in tables or (name == param.name and name not in axes):
            sources.setdefault(name, param)
    names = tables if sources.keys() <= tables.keys() else {**dict.fromkeys(sources), **tables}
    return {name: sources.get(name) for name in names}


def _check_names(kernel: Kernel, decl: KernelDecl, known: Collection[str], report: Report) -> bool:
    """Return whether `args` names only parameters of the launcher, and report the others."""
    axes = dict(kernel.matrix.axes)
    declared = [param.name for param in decl.params if param.given]
    sound = True
    for index, text in enumerate(kernel.args or ()):
        names = parse_abi(text)[1].names
        for name in sorted(names.difference(known, axes, expr.DEVICE_FACTS)):
            message = f"unknown name {name!r}{suggest(name, [*known, *axes])}"
            if name in declared:
                message = f"{name!r} is a parameter of the source, not of the launcher: add {name} = {{}} to params, in the launcher's order"
            report(message, "args", index)
            sound = False
    return sound


class _Parameter:
    """A parameter of the launcher, as manifest and source describe it.

    Attributes:
        kernel, decl: the kernel, in the manifest and in the source.
        table: its table in the manifest; empty if it has none.
        source: its declaration in the source, None if `args` does not pass it unchanged.
    """

    def __init__(
        self, name: str, kernel: Kernel, decl: KernelDecl, source: ParamDecl | None, report: Report
    ) -> None:
        tables = {table.name: table for table in kernel.params}
        self.name, self.kernel, self.decl, self.source = name, kernel, decl, source
        self.table = tables.get(name, ParamTable(name=name))
        self.written = name in tables
        self.report = report.at("params", name)
        self.report_kernel = report

    def resolved(self) -> Param | None:
        """Return the parameter, or None after a report."""
        table, source = self.table, self.source
        dtype = self._dtype()
        kind = self._kind(dtype)
        if kind is None:
            return None
        if table.optional:
            self._check_optional(kind)
        if kind is ParamKind.TENSOR:
            return self._tensor(dtype)
        default = source.default if table.default is None and source else table.default
        return Param(
            name=self.name,
            kind=kind,
            dtype=dtype,
            default=default if isinstance(default, int | float) else None,
            size=table.size or (source.size if source else 0),
            doc=table.doc,
        )

    def _check_optional(self, kind: ParamKind) -> None:
        if kind is not ParamKind.TENSOR:
            self.report(
                f"{self.name!r} is a {kind.value}, and only tensors may be None", "optional"
            )
        elif self.kernel.language != "triton":
            self.report(
                f"a {self.kernel.language} kernel takes no tensor that may be None: only Triton kernels are compiled for None",
                "optional",
            )

    def _tensor(self, dtype: str) -> Param | None:
        table, source = self.table, self.source
        rank = self._rank()
        if rank < 0 and not (source and source.type):
            self.report(f"a tensor parameter needs a rank: params.{self.name}.rank = 1, 2, …")
            return None
        argument = self._argument()
        if not dtype and (argument or not (source and self.decl.typed)):
            message = "the source does not say the dtype"
            if argument:
                message = f"{argument!r} of the symbol is no dtype that tilec knows"
            self.report(f"{message}: write it as params.{self.name}.dtype")
            return None
        return Param(
            name=self.name,
            kind=ParamKind.TENSOR,
            dtype=dtype,
            rank=rank,
            out=self._out(),
            stride=self._stride(rank),
            shape_divisible=table.divisible or (),
            align=table.aligned or 1,
            optional=table.optional,
            doc=table.doc,
        )

    def _argument(self) -> str:
        """Return the template argument that is the dtype, or an empty string."""
        bound = self.decl.bound(cut(self.kernel.symbol)[1] or ())
        return bound.get(self.source.dtype, "") if self.source else ""

    def _dtype(self) -> str:
        """Return its dtype, or the axis that holds it; empty if neither manifest nor source says."""
        source, written = self.source, self.table.dtype
        stated = source.dtype if source else ""
        if stated not in (*DTYPES, *(use.name for use in self.decl.axes)):
            argument = self._argument()
            axes = symbol_axes(argument)
            axis = axes[0] if axes and argument == f"{{{axes[0]}}}" else ""
            stated = axis or dtype_of(argument)
        if written is not None and stated and stated != written and source and source.type:
            self.report(
                f"the manifest says dtype {written!r}, the source says {source.type!r} ({stated})",
                "dtype",
            )
        return stated if written is None else written

    def _kind(self, dtype: str) -> ParamKind | None:
        table, source, name = self.table, self.source, self.name
        if table.kind is not None:
            return ParamKind(table.kind)
        if source is not None and source.type and source.kind in ("tensor", "scalar", "struct"):
            return ParamKind(source.kind)
        if self.written and self._is_array():
            return ParamKind.TENSOR
        if dtype:
            return ParamKind.SCALAR
        if table.default is not None:
            message = f"{name!r} has a default, so that it is a number, and nothing says its dtype"
            self.report(f'{message}: params.{name}.dtype = "f32"')
            return None
        example = f'params.{name} = {{ dtype = "f32", rank = 1 }} for a tensor, {{ dtype = "f32" }} for a number'
        report = self.report if self.written else self.report_kernel
        report(f"the source does not say what parameter {name!r} is: {example}")
        return None

    def _is_array(self) -> bool:
        """Return whether manifest or source treat it as an array."""
        table, source, name = self.table, self.source, self.name
        facts = (table.rank, table.out, table.stride, table.contiguous)
        if any(fact is not None for fact in (*facts, table.divisible, table.aligned)):
            return True
        # Machine code without names marks each parameter as written, since stores are unknown.
        out = source is not None and source.out and self.decl.named
        if table.optional or out or (source is not None and source.rank >= 0):
            return True
        texts = self.kernel.launch.expressions
        used = any(name == of and attribute for t in texts for of, attribute in expr.parse(t).uses)
        inputs = (item for case in self.kernel.cases for item in case.inputs)
        return used or any(item.name == name and item.shape is not None for item in inputs)

    def _out(self) -> bool:
        source, written = self.source, self.table.out
        if written and source and source.out is False:
            self.report(
                f"out = true, but the source only reads it ({source.type} {source.name})", "out"
            )
        return bool(source and source.out) if written is None else written

    def _rank(self) -> int:
        source, written = self.source, self.table.rank
        stated = source.rank if source else -1
        if source and written is not None and stated >= 0 and written != stated:
            says = (
                f"says {source.type} (rank {stated})"
                if source.type
                else f"takes {descriptor_reads(source)}"
            )
            self.report(f"rank {written}, but the source {says}", "rank")
        return stated if written is None else written

    def _stride(self, rank: int) -> tuple[int | None, ...] | None:
        table, name = self.table, self.name
        for key, facts in (("stride", table.stride), ("divisible", table.divisible)):
            if facts is not None and len(facts) != rank:
                shown = f"rank {rank}" if rank >= 0 else "no rank"
                self.report(f"{len(facts)} given for a tensor of {shown}", key)
        if table.stride is not None or table.contiguous or rank <= 0:
            return table.stride
        if table.contiguous is False:
            return (None,) * rank
        passed = [parse_abi(text)[1] for text in self.kernel.args or ()]
        if not any((name, "stride") in entry.uses for entry in passed):
            return None
        # A kernel that does not get the last stride assumes 1.
        last = {(name, "stride", -1), (name, "stride", rank - 1)}
        free = any(last & entry.extents for entry in passed)
        return (*(None,) * (rank - 1), None if free else 1)
