"""Slices: an array that a kernel takes as two parameters, its address and then its number of
elements.
"""

from __future__ import annotations

import dataclasses

from tilec.manifest.types import Kernel, ParamTable
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.plan.matrix import Report
from tilec_runtime.model.dtype import DTYPES

KIND = "slice"


def with_slices(kernel: Kernel, decl: KernelDecl, report: Report) -> Kernel:
    """The kernel with its slices written out: as tensors, and as two of the `args` each."""
    sliced = [table.name for table in kernel.params if table.kind == KIND]
    if not sliced:
        return kernel
    written = tuple(_as_tensor(table) if table.kind == KIND else table for table in kernel.params)
    kernel = dataclasses.replace(kernel, params=written)
    if (
        kernel.language == "simt" or kernel.args is not None
    ):  # SIMT Python has slices itself; `args` say what is passed
        return kernel
    axes = dict(kernel.matrix.axes)
    declared = [
        param for param in decl.params if param.kind != "constant" and param.name not in axes
    ]
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
            found = f"is {length.type} {length.name}" if length is not None else "is missing"
            what = f"a slice is an address and an integer behind it, and what follows {param.type} {param.name} in the source {found}"
            report(what, ("kernel", kernel.name, "params", param.name, "kind"))
            return kernel
        args += [
            f"{param.name}.ptr",
            f"{DTYPES[length.dtype].name if length.dtype in DTYPES else 'u64'}({param.name}.size)",
        ]
    return dataclasses.replace(kernel, args=tuple(args), params=(*taken, *tables.values()))


def _as_tensor(table: ParamTable) -> ParamTable:
    return dataclasses.replace(table, kind="tensor", rank=1 if table.rank is None else table.rank)


def _counts(param: ParamDecl) -> bool:
    """Whether a parameter can be a number of elements; one of compiled code may say no more than
    its size.
    """
    row = DTYPES.get(param.dtype)
    return (
        row.kind in ("int", "uint")
        if row is not None
        else param.kind != "tensor" and param.size == 8
    )
