"""The arguments of an entry point: `args` of the manifest, and slices as entries of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tilec.manifest.types import Kernel, ParamTable
from tilec.model.argument import DESCRIPTOR, parse_abi, parse_box
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.model.job import EMPTY
from tilec.plan.points import inlined
from tilec.plan.report import Report
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model import expr
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind
from tilec_runtime.model.tensormap import ALIGN, GRANULE, MOST_RANK, SIZE

DESCRIBED = (
    'args = ["descriptor(x, BM, BK)", …]: a tensor, and the extents of the box that one load takes'
)
_SLICE = "slice"


def with_slices(kernel: Kernel, decl: KernelDecl, report: Report) -> Kernel:
    """Return the kernel with each slice as a tensor parameter and two entries of `args`.

    A slice is an array that is passed as its address and its number of elements.
    """
    sliced = [table.name for table in kernel.params if table.kind == _SLICE]
    if not sliced:
        return kernel
    written = tuple(_as_tensor(table) if table.kind == _SLICE else table for table in kernel.params)
    kernel = dataclasses.replace(kernel, params=written)
    # SIMT Python has slices of its own; given `args` list the arguments already.
    if kernel.language == "simt" or kernel.args is not None:
        return kernel
    axes = dict(kernel.matrix.axes)
    rest = (param for param in decl.params if param.given and param.name not in axes)
    tables = {table.name: table for table in kernel.params}
    args: list[str] = []
    taken: list[ParamTable] = []
    for param in rest:
        taken.append(tables.pop(param.name, ParamTable(name=param.name)))
        if param.name not in sliced:
            args.append(param.name)
            continue
        length = next(rest, None)
        if length is None or not _counts(length):
            behind = f"is {length.type} {length.name}" if length is not None else "is missing"
            report(
                f"a slice is an address and an integer behind it, and what follows {param.type} {param.name} in the source {behind}",
                "params",
                param.name,
                "kind",
            )
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


def passed_name(entry: expr.Expr) -> str:
    """Return the parameter that an entry of `args` passes unchanged, or an empty string."""
    name = entry.text.strip().removesuffix(".ptr")
    return name if name in entry.names else ""


def descriptor_reads(decl: ParamDecl) -> str:
    """Return text about the tiles that a Triton kernel reads by a tensor descriptor."""
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
            report(fault, "args", index)
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
    kind, parsed = parse_abi(text)
    name = parsed.text.strip()
    param = params.get(name)
    if not kind and param is not None:
        kind = param.dtype if param.kind is ParamKind.SCALAR else param.kind.value
    kind = str(axes.get(kind, kind))
    if kind == DESCRIPTOR:
        slot = AbiSlot(type=kind, expr=text, size=SIZE, align=ALIGN)
        if language != "triton":
            return slot, f"{text!r}: only Triton kernels take tensor descriptors"
        return slot, _box_fault(text, params, axes)
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
        return (
            f"{text!r} is an address, and the source takes {descriptor_reads(source)}: {DESCRIBED}"
        )
    if source.type and source.kind != "tensor":
        return f"{text!r} is an address, but the source takes {source.type} {source.name}"
    return ""


def _box_fault(text: str, params: Mapping[str, Param], axes: Mapping[str, object]) -> str:
    """Return the problem of a tensor descriptor's box at a point, or an empty string.

    Otherwise a compiler would report it again for each image.
    """
    name, box = parse_box(text)
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
