"""Resolve a kernel's parameters from manifest and source to one signature."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilec.manifest.types import Kernel, ParamTable
from tilec.model.cpp import cut, dtype_of
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.model.job import EMPTY
from tilec.plan.points import Report, inlined
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model import expr
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind
from tilec_runtime.model.suggest import did_you_mean, nearest
from tilec_runtime.model.tensormap import ALIGN, GRANULE, MOST_RANK, SIZE


def fault_of(text: str, params: Mapping[str, Param], axes: Mapping[str, object]) -> str:
    """Return the problem of a tensor descriptor's box at a point, or an empty string.

    Otherwise a compiler would report it again for each image.
    """
    name, box = expr.parse_box(text)
    param = params.get(name)
    if param is None or param.kind is not ParamKind.TENSOR:
        return f"{text}: {name!r} is no tensor of the launcher"
    if param.rank != len(box) or not 1 <= param.rank <= MOST_RANK:
        return f"{text} has a box of {len(box)} extents, and {name} has rank {param.rank}"
    if param.align % GRANULE:
        return f"{name} is passed as a tensor descriptor, and nothing says that it is aligned: params.{name}.aligned = {GRANULE}"
    try:
        extents: list[Any] = [part.evaluate(dict(axes)) for part in box]
    except ExpressionError as error:
        return f"{text}: {error.what}: the extents of a box are numbers and axes of the matrix"
    if not all(
        type(extent) is int and extent > 0 and not extent & (extent - 1) for extent in extents
    ):
        return f"{text}: a box has extents that are powers of two, and these are {', '.join(map(str, extents))}"
    dtype = DTYPES.get(str(axes.get(param.dtype, param.dtype)))
    if dtype is not None and extents[-1] * dtype.bytes < GRANULE:
        row = f"{extents[-1]} x {dtype.bytes}"
        return f"{text}: a row of a box has {GRANULE} bytes at least, and {row} are {extents[-1] * dtype.bytes}: widen the last extent"
    return ""


KIND = "slice"


def with_slices(kernel: Kernel, decl: KernelDecl, report: Report) -> Kernel:
    """Return the kernel with each slice as a tensor parameter and two entries of `args`.

    A slice is an array that is passed as its address and its number of elements.
    """
    sliced = [table.name for table in kernel.params if table.kind == KIND]
    if not sliced:
        return kernel
    written = tuple(_as_tensor(table) if table.kind == KIND else table for table in kernel.params)
    kernel = dataclasses.replace(kernel, params=written)
    if (
        kernel.language == "simt" or kernel.args is not None
    ):  # SIMT Python has slices of its own; given `args` list the arguments already
        return kernel
    axes = dict(kernel.matrix.axes)
    declared = [param for param in decl.params if param.given and param.name not in axes]
    tables = {table.name: table for table in kernel.params}
    args: list[str] = []
    taken: list[ParamTable] = []
    rest = iter(declared)
    for param in rest:
        taken.append(tables.pop(param.name, ParamTable(name=param.name)))
        if param.name not in sliced:
            args.append(param.name)
            continue
        length = next(rest, None)
        if length is None or not _counts(length):
            behind = f"is {length.type} {length.name}" if length is not None else "is missing"
            message = f"a slice is an address and an integer behind it, and what follows {param.type} {param.name} in the source {behind}"
            report(message, ("kernel", kernel.name, "params", param.name, "kind"))
            return kernel
        args += [
            f"{param.name}.ptr",
            f"{DTYPES[length.dtype].name if length.dtype in DTYPES else 'u64'}({param.name}.size)",
        ]
    return dataclasses.replace(kernel, args=tuple(args), params=(*taken, *tables.values()))


def _as_tensor(table: ParamTable) -> ParamTable:
    return dataclasses.replace(table, kind="tensor", rank=1 if table.rank is None else table.rank)


def _counts(param: ParamDecl) -> bool:
    """Return whether a parameter can be a number of elements.

    Compiled code may declare nothing but its size.
    """
    row = DTYPES.get(param.dtype)
    return (
        row.kind in ("int", "uint")
        if row is not None
        else param.kind != "tensor" and param.size == 8
    )


DESCRIBED = (
    'args = ["descriptor(x, BM, BK)", …]: a tensor, and the extents of the box that one load takes'
)
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


class Resolver:
    """Resolves one kernel's parameters, and reports problems at their keys."""

    def __init__(self, kernel: Kernel, decl: KernelDecl, report: Report) -> None:
        self.kernel = kernel
        self.decl = decl
        self.report = report
        self.axes: Mapping[str, tuple[object, ...]] = dict(kernel.matrix.axes)
        self.tables: Mapping[str, ParamTable] = {table.name: table for table in kernel.params}
        self.template = decl.bound(cut(kernel.symbol)[1] or ())
        self.unresolved: set[str] = set()  # parameters with a problem; other checks skip them

    def params(self) -> tuple[Param, ...]:
        """Return the launcher's parameters in order."""
        if self.kernel.args is not None:
            return self._params_of_args(self.kernel.args)
        runtime = [p for p in self.decl.params if p.given and p.name not in self.axes]
        names = [p.name for p in runtime]
        for name in self.tables:
            if name not in names:
                known = [*names, *(p.name for p in self.decl.captures if p.kind == "scalar")]
                message = (
                    f"kernel {self.decl.name!r} has no parameter {name!r}{suggest(name, known)}"
                )
                self.report(message, ("kernel", self.kernel.name, "params", name))
        if self.kernel.language == "triton":
            for decl in (decl for decl in runtime if decl.rank >= 0):
                self.report(
                    f"the source takes {_offsets(decl)}: {DESCRIBED}", ("kernel", self.kernel.name)
                )
        return self._resolved({decl.name: decl for decl in runtime})

    def _params_of_args(self, args: Sequence[str]) -> tuple[Param, ...]:
        declared = [p for p in self.decl.params if p.given]
        path = ("kernel", self.kernel.name, "args")
        parsed = [expr.parse_abi(text)[1] for text in args]
        passed = [passed_name(entry) for entry in parsed]
        source: dict[str, ParamDecl] = {}
        for name, decl in zip(passed, declared, strict=True):
            if name in self.tables or (name == decl.name and name not in self.axes):
                source.setdefault(name, decl)
        # The launcher's order is that of `params`, or of `args` if these name more parameters.
        more = [name for name in source if name not in self.tables]
        names = dict.fromkeys((*source, *self.tables) if more else self.tables)
        for index, entry in enumerate(parsed):
            for name in sorted(entry.names.difference(names, self.axes, expr.DEVICE_FACTS)):
                self.unresolved.add(name)
                if name in [p.name for p in declared]:
                    message = f"{name!r} is a parameter of the source, not of the launcher: add {name} = {{}} to params, in the launcher's order"
                else:
                    message = f"unknown name {name!r}{suggest(name, [*names, *self.axes])}"
                self.report(message, (*path, index))
        return self._resolved({name: source.get(name) for name in names})

    def _resolved(self, wanted: Mapping[str, ParamDecl | None]) -> tuple[Param, ...]:
        params = {name: self._param(name, decl) for name, decl in wanted.items()}
        self.unresolved.update(name for name, param in params.items() if param is None)
        return tuple(param for param in params.values() if param)

    def _param(self, name: str, decl: ParamDecl | None) -> Param | None:
        table = self.tables.get(name) or ParamTable(name=name)
        dtype = self._dtype(name, table, decl)
        kind = self._kind(name, table, decl, dtype)
        if kind is None or dtype is None:
            return None
        if table.optional and (kind is not ParamKind.TENSOR or self.kernel.language != "triton"):
            language = self.kernel.language
            message = f"a {language} kernel takes no tensor that may be None: its code is one for all launches; Triton's is not"
            if kind is not ParamKind.TENSOR:
                message = f"{name!r} is a {kind.value}, and only tensors may be None"
            self.report(message, ("kernel", self.kernel.name, "params", name, "optional"))
        if kind is ParamKind.TENSOR:
            return self._tensor(name, table, decl, dtype)
        default = decl.default if table.default is None and decl else table.default
        return Param(
            name=name,
            kind=kind,
            dtype=dtype,
            default=default if isinstance(default, int | float) else None,
            size=table.size or (decl.size if decl else 0),
            doc=table.doc,
        )

    def _tensor(
        self, name: str, table: ParamTable, decl: ParamDecl | None, dtype: str
    ) -> Param | None:
        path = ("kernel", self.kernel.name, "params", name)
        rank = self._rank(name, table, decl)
        if rank < 0 and not (decl and decl.type):
            self.report(f"a tensor parameter needs a rank: params.{name}.rank = 1, 2, …", path)
            return None
        argument = self.template.get(decl.dtype, "") if decl else ""
        if not dtype and (argument or not (decl and self.decl.typed)):
            message = "the source does not say the dtype"
            if argument:
                message = f"{argument!r} of the symbol is no dtype that tilec knows"
            self.report(f"{message}: write it as params.{name}.dtype", path)
            return None
        return Param(
            name=name,
            kind=ParamKind.TENSOR,
            dtype=dtype,
            rank=rank,
            out=self._out(name, table, decl),
            stride=self._stride(name, table, rank),
            shape_divisible=table.divisible or (),
            align=table.aligned or 1,
            optional=table.optional,
            doc=table.doc,
        )

    def _dtype(self, name: str, table: ParamTable, decl: ParamDecl | None) -> str | None:
        path = ("kernel", self.kernel.name, "params", name)
        stated = self._declared_dtype(decl) if decl else ""
        if table.dtype is None:
            return stated
        if stated and stated != table.dtype and decl and decl.type:
            self.report(
                f"the manifest says dtype {table.dtype!r}, the source says {decl.type!r} ({stated})",
                (*path, "dtype"),
            )
        return table.dtype

    def _declared_dtype(self, decl: ParamDecl) -> str:
        if (
            not decl.dtype
            or decl.dtype in DTYPES
            or decl.dtype in [use.name for use in self.decl.axes]
        ):
            return decl.dtype
        argument = self.template.get(decl.dtype, "")
        axes = symbol_axes(argument)
        if axes and argument == f"{{{axes[0]}}}":
            return axes[0]
        return dtype_of(argument)

    def _kind(
        self, name: str, table: ParamTable, decl: ParamDecl | None, dtype: str | None
    ) -> ParamKind | None:
        path = ("kernel", self.kernel.name, "params", name)
        if table.kind is not None:
            return ParamKind(table.kind)
        if decl is not None and decl.type and decl.kind in ("tensor", "scalar", "struct"):
            return ParamKind(decl.kind)
        if name in self.tables and self._is_array(name, table, decl):
            return ParamKind.TENSOR
        if table.default is not None and dtype == "":
            message = f"{name!r} has a default, so that it is a number, and nothing says its dtype"
            self.report(f'{message}: params.{name}.dtype = "f32"', path)
            return None
        if dtype:
            return ParamKind.SCALAR
        where = path if name in self.tables else ("kernel", self.kernel.name)
        example = f'params.{name} = {{ dtype = "f32", rank = 1 }} for a tensor, {{ dtype = "f32" }} for a number'
        self.report(f"the source does not say what parameter {name!r} is: {example}", where)
        return None

    def _is_array(self, name: str, table: ParamTable, decl: ParamDecl | None) -> bool:
        """Return whether manifest or source treat a parameter of no stated kind as an array."""
        facts = (table.rank, table.out, table.stride, table.contiguous)
        if any(fact is not None for fact in (*facts, table.divisible, table.aligned)):
            return True
        # Machine code without names marks each parameter as written, since stores are unknown.
        written = decl is not None and decl.out and self.decl.named
        if table.optional or written or (decl is not None and decl.rank >= 0):
            return True
        texts = self.kernel.launch.expressions
        used = any(name == of and attribute for t in texts for of, attribute in expr.parse(t).uses)
        inputs = (item for case in self.kernel.cases for item in case.inputs)
        return used or any(item.name == name and item.shape is not None for item in inputs)

    def _out(self, name: str, table: ParamTable, decl: ParamDecl | None) -> bool:
        stated = decl.out if decl else None
        if table.out is None:
            return bool(stated)
        if table.out and stated is False and decl:
            self.report(
                f"out = true, but the source only reads it ({decl.type} {decl.name})",
                ("kernel", self.kernel.name, "params", name, "out"),
            )
        return table.out

    def _rank(self, name: str, table: ParamTable, decl: ParamDecl | None) -> int:
        stated = decl.rank if decl else -1
        if table.rank is None:
            return stated
        if stated >= 0 and table.rank != stated and decl:
            source = f"says {decl.type} (rank {stated})" if decl.type else f"takes {_offsets(decl)}"
            self.report(
                f"rank {table.rank}, but the source {source}",
                ("kernel", self.kernel.name, "params", name, "rank"),
            )
        return table.rank

    def _stride(self, name: str, table: ParamTable, rank: int) -> tuple[int | None, ...] | None:
        path = ("kernel", self.kernel.name, "params", name)
        for key, facts in (("stride", table.stride), ("divisible", table.divisible)):
            if facts is not None and len(facts) != rank:
                shown = f"rank {rank}" if rank >= 0 else "no rank"
                self.report(f"{len(facts)} given for a tensor of {shown}", (*path, key))
        if table.stride is not None:
            return table.stride
        if table.contiguous is False and rank > 0:
            return (None,) * rank
        passed = [expr.parse_abi(text)[1] for text in self.kernel.args or ()]
        if (
            table.contiguous is None
            and rank > 0
            and any((name, "stride") in e.uses for e in passed)
        ):
            # A kernel that does not get the last stride assumes 1.
            last = {(name, "stride", -1), (name, "stride", rank - 1)}
            free = any(last & e.extents for e in passed)
            return (*(None,) * (rank - 1), None if free else 1)
        return None


def passed_name(entry: expr.Expr) -> str:
    """Return the parameter that an entry of `args` passes unchanged, or an empty string."""
    name = entry.text.strip().removesuffix(".ptr")
    return name if name in entry.names else ""


def _offsets(decl: ParamDecl) -> str:
    """Return a description of how a Triton kernel reads a tensor descriptor."""
    return f"tiles of {decl.name} at {decl.rank} offset{'' if decl.rank == 1 else 's'}"


def abi_of_args(
    kernel: Kernel,
    decl: KernelDecl,
    params: Sequence[Param],
    axes: Mapping[str, object],
    report: Report,
) -> tuple[AbiSlot, ...]:
    """Return the arguments of the entry point by `args`, at one point of the matrix.

    The types may differ between points with other values of dtype axes.
    """
    by_name = {p.name: p for p in params}
    declared = [p for p in decl.params if p.given]
    slots = []
    for index, (text, source) in enumerate(zip(kernel.args or (), declared, strict=False)):
        slot, fault = _slot(inlined(kernel, text), source, by_name, axes, kernel.language)
        if fault:
            report(fault, ("kernel", kernel.name, "args", index))
        slots += [slot] if slot else []
    for position, source in enumerate(p for p in decl.params if p.kind != "constant"):
        if source.kind == "empty":
            slots.insert(position, EMPTY)
    return tuple(slots)


def _slot(
    text: str,
    source: ParamDecl,
    params: Mapping[str, Param],
    axes: Mapping[str, object],
    language: str,
) -> tuple[AbiSlot | None, str]:
    """Return the slot of an entry of `args`, and its contradiction to the source or ""."""
    kind, parsed = expr.parse_abi(text)
    name = parsed.text.strip()
    param = params.get(name)
    if not kind and param is not None:
        kind = param.dtype if param.kind is ParamKind.SCALAR else param.kind.value
    kind = str(axes.get(kind, kind))
    if kind == expr.DESCRIPTOR:
        slot = AbiSlot(type=kind, expr=text, size=SIZE, align=ALIGN)
        if language != "triton":
            return slot, f"{text!r}: tensor descriptors are made for Triton kernels alone"
        return slot, fault_of(text, params, axes)
    if kind in ("ptr", "tensor"):
        address = text if kind == "ptr" else f"{name}.ptr"
        slot = AbiSlot(type="ptr", expr=address, size=8, align=8)
        return slot, _no_address(text, source, language)
    if kind == "struct" and param is not None:
        size = param.size or source.size
        align = min(8, size & -size) if size else 1
        fault = f"{text!r} is a struct of unknown size: say params.{param.name}.size"
        return AbiSlot(type="struct", expr=text, size=size, align=align), "" if size else fault
    if kind in DTYPES:
        size = DTYPES[kind].bytes
        slot = AbiSlot(type=kind, expr=parsed.text, size=size, align=size)
        stated = str(axes.get(source.dtype, source.dtype))
        differs = source.type and stated in DTYPES and stated != kind
        fault = (
            f"{text!r} packs {kind}, but the source takes {source.type} {source.name} ({stated})"
        )
        return slot, fault if differs else ""
    return None, f"{text!r} has no type: cast it, for example i32({text})"


def _no_address(text: str, source: ParamDecl, language: str) -> str:
    """Return why the source accepts no address for a parameter, or an empty string."""
    if language == "triton" and source.rank >= 0:
        return f"{text!r} is an address, and the source takes {_offsets(source)}: {DESCRIBED}"
    if source.type and source.kind != "tensor":
        return f"{text!r} is an address, but the source takes {source.type} {source.name}"
    return ""
