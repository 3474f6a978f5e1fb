"""Make captured numbers that the manifest names parameters of launches."""

from __future__ import annotations

import dataclasses

from tilec.manifest.types import Kernel, ParamTable
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.plan.report import Report
from tilec_runtime.model.dtype import DTYPES

# Kinds of dtypes that can hold a captured number of a kind: an integer may become a float.
_HELD = {
    "bool": ("bool",),
    "int": ("int", "uint", "float"),
    "uint": ("int", "uint", "float"),
    "float": ("float",),
}


def with_captures(kernel: Kernel, decl: KernelDecl, report: Report) -> KernelDecl:
    """Return the declaration with captured numbers in `params` as last parameters.

    With `args`, the manifest lists all arguments itself, and nothing is added.
    """
    if kernel.args is not None:
        return decl
    own = {param.name for param in decl.params}
    captures = {param.name: param for param in decl.captures if param.name not in own}
    added = [
        _passed(kernel, captures[table.name], table, report)
        for table in kernel.params
        if table.name in captures
    ]
    return dataclasses.replace(decl, params=(*decl.params, *added))


def _passed(kernel: Kernel, capture: ParamDecl, table: ParamTable, report: Report) -> ParamDecl:
    """Return a captured number as a scalar of the manifest's dtype, or of its own."""
    report = report.at("params", table.name)
    if capture.kind != "scalar":
        report(f"{table.name!r} cannot be a launch parameter: it is {capture.type}")
        return dataclasses.replace(capture, kind="scalar", dtype="i64")
    array_key = table.rank is not None or table.out is not None or table.stride is not None
    if table.kind not in (None, "scalar") or array_key:
        report(f"{table.name!r} is a captured number, which is passed as a scalar")
    dtype = table.dtype or capture.dtype
    for name in dict(kernel.matrix.axes).get(dtype, (dtype,)):
        row = DTYPES.get(str(name))
        if row is not None and row.kind not in _HELD[DTYPES[capture.dtype].kind]:
            report(
                f"the kernel captures {table.name!r} as {capture.type}, which {name} does not hold",
                "dtype",
            )
    return dataclasses.replace(capture, dtype=dtype)
