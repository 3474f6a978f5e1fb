"""Expand lists of arrays (tuple parameters of tile kernels) to one parameter each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tilec.manifest.types import Kernel, ParamTable
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.model.lists import item_name
from tilec.plan.points import filled
from tilec.plan.report import Path, Report
from tilec_runtime.model import expr
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.signature import ListParam, Param


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ArrayList:
    """A list of arrays.

    Attributes:
        name: name of the parameter.
        counts: possible numbers of arrays, ascending.
        axis: axis that gives the number; empty for a fixed number.
    """

    name: str
    counts: tuple[int, ...]
    axis: str = ""

    @property
    def most(self) -> int:
        """The largest number of arrays."""
        return self.counts[-1]

    @property
    def items(self) -> tuple[str, ...]:
        """Names of its arrays."""
        return tuple(item_name(self.name, index) for index in range(self.most))

    def absent(self, axes: Mapping[str, AxisValue]) -> tuple[str, ...]:
        """Return the names of arrays that the list lacks at a point of the matrix."""
        count = axes.get(self.axis, self.most)
        return self.items[count:] if isinstance(count, int) else ()


def with_lists(
    kernel: Kernel, decl: KernelDecl, report: Report
) -> tuple[Kernel, KernelDecl, tuple[ArrayList, ...]]:
    """Return kernel and declaration with a parameter per array, and the lists.

    The arrays of a list `a` are named `a_0`, `a_1`, ….
    """
    lists = {
        table.name: ArrayList(
            name=table.name,
            counts=counts,
            axis=table.list if isinstance(table.list, str) else "",
        )
        for table in kernel.params
        if table.list is not None and (counts := _counts(kernel, decl, table, report))
    }
    if not lists:
        return kernel, decl, ()
    if kernel.op is not None:
        report(
            f"{next(iter(lists))} is a list of arrays, and operators take arrays and numbers: leave op out",
            "op",
        )
    _check_cases(kernel, tuple(lists.values()), report)
    kept = [table for table in kernel.params if table.name not in lists]
    listed = [table for table in kernel.params if table.name in lists]
    tables = [
        dataclasses.replace(table, name=name, list=None)
        for table in listed
        for name in lists[table.name].items
    ]
    params = tuple(_with_items(decl.params, lists))
    each = [_of_each(text, lists) for text in kernel.launch.requires]
    # The manifest's conditions keep their indices, which locate problems.
    requires = (*(texts[0] for texts in each), *(text for texts in each for text in texts[1:]))
    kernel = dataclasses.replace(
        kernel,
        params=(*kept, *tables),
        launch=dataclasses.replace(kernel.launch, requires=requires),
        op=None,
    )
    ordered = tuple(lists[param.name] for param in decl.params if param.name in lists)
    return kernel, dataclasses.replace(decl, params=params), ordered


def _with_items(params: Iterable[ParamDecl], lists: Mapping[str, ArrayList]) -> Iterator[ParamDecl]:
    """Yield the parameters, with those of the arrays in place of each list."""
    for param in params:
        if param.name in lists:
            for name in lists[param.name].items:
                yield dataclasses.replace(param, name=name)
        else:
            yield param


def _of_each(text: str, lists: Mapping[str, ArrayList]) -> Sequence[str]:
    """Return a condition that names lists as one condition for each index of an array."""
    named = sorted(expr.parse(text).names & lists.keys())
    if not named:
        return [text]
    return [
        filled(text, {name: item_name(name, index) for name in named})
        for index in range(max(lists[name].most for name in named))
    ]


def in_manifest(kernel: Kernel, report: Report) -> Report:
    """Return a report that drops conditions' problems beyond the first arrays."""
    count = len(kernel.launch.requires)

    def collect(what: str, path: Path, column: int) -> None:
        *table, last = path
        beyond = isinstance(last, int) and last >= count
        if not (beyond and table == ["launch", "requires"]):
            report(what, *path, column=column)

    return Report(collect)


def _check_cases(kernel: Kernel, lists: Sequence[ArrayList], report: Report) -> None:
    """Report cases whose lists have a number of arrays that no variant takes."""
    for case in kernel.cases:
        at = report.at("case", case.name, "inputs")
        given = {item.name for item in case.inputs}
        axes = dict(case.axes)
        for one in lists:
            count = sum(name in given for name in one.items)
            if not one.axis or not count:
                continue  # another check reports missing arrays
            if count not in one.counts or not given.issuperset(one.items[:count]):
                wanted = " or ".join(map(str, one.counts))
                names = f"{one.items[0]}, {item_name(one.name, 1)}, …"
                at(f"{one.name} has {count} arrays, and takes {wanted}: {names}")
            elif axes.setdefault(one.axis, count) != count:
                at(
                    f"{one.name} has {count} arrays, and {one.axis} is {axes[one.axis]!r}: give as many"
                )


def with_optional(params: Sequence[Param], lists: Sequence[ArrayList]) -> tuple[Param, ...]:
    """Return the parameters; arrays that shorter lists lack become optional."""
    extra = {name for one in lists for name in one.items[one.counts[0] :]}
    return tuple(
        dataclasses.replace(param, optional=True) if param.name in extra else param
        for param in params
    )


def list_params(params: Sequence[Param], lists: Sequence[ArrayList]) -> tuple[ListParam, ...]:
    """Return the lists for the bundle index, without those that have a problem."""
    indices = {param.name: index for index, param in enumerate(params)}
    return tuple(
        ListParam(name=one.name, first=indices[one.items[0]], most=one.most, axis=one.axis)
        for one in lists
        if one.items[0] in indices
    )


def _counts(kernel: Kernel, decl: KernelDecl, table: ParamTable, report: Report) -> tuple[int, ...]:
    """Return the possible numbers of arrays of a list, or () after a report."""
    report = report.at("params", table.name, "list")
    if kernel.language != "tile" or decl.safety is not None or decl.template:
        report("lists of arrays are parameters of cuTile Python kernels alone")
        return ()
    if table.name not in [param.name for param in decl.params]:
        return ()  # another check reports the unknown parameter
    if not isinstance(table.list, str):
        return (table.list,) if table.list else ()
    values = dict(kernel.matrix.axes).get(table.list)
    if values is None:
        report(f"{table.list!r} is no axis of the matrix")
        return ()
    counts = []
    for value in values:
        if type(value) is not int or not 1 <= value <= 64:
            report(f"{table.list} is {value!r}: a list has 1 to 64 arrays")
            return ()
        counts.append(value)
    return tuple(sorted(counts))
