"""Lists of arrays: parameters of a tile kernel that are tuples, as one parameter for each array."""

from __future__ import annotations

import dataclasses

from tilec.manifest.types import Kernel, ParamTable
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.model.lists import item_name
from tilec.plan.points import Report


def with_lists(kernel: Kernel, decl: KernelDecl, report: Report) -> tuple[Kernel, KernelDecl]:
    """Return kernel and declaration with a parameter `a_0`, `a_1`, … for each array of a list `a`."""
    counts = {
        table.name: count
        for table in kernel.params
        if table.list is not None and (count := _count(kernel, decl, table, report))
    }
    if not counts:
        return kernel, decl
    tables = [
        dataclasses.replace(table, name=item_name(table.name, place), list=None)
        for table in kernel.params
        if table.name in counts
        for place in range(counts[table.name])
    ]
    kept = [table for table in kernel.params if table.name not in counts]
    params: list[ParamDecl] = []
    for param in decl.params:
        number = counts.get(param.name)
        names = (
            [item_name(param.name, place) for place in range(number)] if number else [param.name]
        )
        params += (dataclasses.replace(param, name=name) for name in names)
    kernel = dataclasses.replace(kernel, params=(*kept, *tables))
    return kernel, dataclasses.replace(decl, params=tuple(params))


def _count(kernel: Kernel, decl: KernelDecl, table: ParamTable, report: Report) -> int:
    """Return how many arrays a list has; 0 where that cannot be told, which is reported."""
    path = ("kernel", kernel.name, "params", table.name, "list")
    if kernel.language != "tile" or decl.safety is not None or decl.template:
        report("lists of arrays are parameters of cuTile Python kernels alone", path)
        return 0
    if table.name not in [param.name for param in decl.params]:
        return 0  # the parameter itself is reported
    if not isinstance(table.list, str):
        return table.list or 0
    values = dict(kernel.matrix.axes).get(table.list)
    if values is None:
        report(f"{table.list!r} is no axis of the matrix", path)
    elif len(values) != 1:
        shown = ", ".join(map(str, values))
        what = (
            f"axis {table.list} has the values {shown}, and a launcher takes one number of arrays"
        )
        report(f"{what}: write a kernel for each", path)
    elif type(values[0]) is not int or not 1 <= values[0] <= 64:
        report(f"{table.list} is {values[0]!r}: a list has 1 to 64 arrays", path)
    else:
        return values[0]
    return 0
