"""Tuning tables and dispatch rules in the bundle's index: their schema, and what they are held to; few kernels have any."""

from __future__ import annotations

from typing import Any

from tilec_runtime.bundle import limits
from tilec_runtime.bundle.codec import identifier, integer, line, literal, record, row, sequence, unfit
from tilec_runtime.bundle.format import EXPRESSION
from tilec_runtime.bundle.images import VERSION
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model.expr import parse
from tilec_runtime.model.kernel import KernelInfo
from tilec_runtime.model.table import DispatchRule, TableDevice, TableEntry, TuningTable

_POINT = sequence(row(identifier, literal), most=limits.AXES)
TABLE = record(
    TuningTable,
    source=line(4096),
    sizes=sequence(EXPRESSION, most=64),
    devices=sequence(
        record(
            TableDevice,
            name=line(500),
            cc=VERSION,
            multiprocessors=integer(0, limits.DIM),
            entries=sequence(
                record(TableEntry, ranges=sequence(row(integer(0), integer(0)), most=64), point=_POINT),
                most=100_000,
            ),
        ),
        most=1000,
    ),
)
RULES = sequence(record(DispatchRule, when=EXPRESSION, take=_POINT), most=limits.RULES)


def check_choice(here: str, kernel: KernelInfo, axes: dict[str, tuple[Any, ...]]) -> None:
    """See that what says which variant a launch takes speaks of axes that there are. Raises Misfit."""
    if kernel.table is not None:
        _check_table(f"{here}.table", kernel.table, axes)
    built = {name: {(type(value), value) for value in values} for name, values in axes.items()} if kernel.rules else {}
    for index, rule in enumerate(kernel.rules):
        for name, value in rule.take:
            if (type(value), value) not in built.get(name, ()):
                unfit(f"{here}.rules[{index}].take", f"{name} = {value!r} is no value of an axis of the kernel")


def check_names(here: str, kernel: KernelInfo) -> None:
    """See that the conditions of rules and the sizes of a table can be read, and name parameters. Raises Misfit."""
    params = {param.name for param in kernel.params}
    for index, size in enumerate(kernel.table.sizes if kernel.table is not None else ()):
        _check_names(f"{here}.table.sizes[{index}]", size, params)
    for index, rule in enumerate(kernel.rules):
        if rule.when:
            _check_names(f"{here}.rules[{index}].when", rule.when, params)


def _check_names(here: str, expression: str, params: set[str]) -> None:
    try:
        unknown = parse(expression).names - params
    except ExpressionError as error:
        unfit(here, error.what)
    if unknown:
        unfit(here, f"no parameter {min(unknown)!r}")


def _check_table(here: str, table: TuningTable, axes: dict[str, tuple[Any, ...]]) -> None:
    """Entries speak of every size, and their points have every axis."""
    names = [device.name for device in table.devices]
    if len(set(names)) != len(names):
        unfit(f"{here}.devices", f"device {max(names, key=names.count)!r} appears twice")
    for number, device in enumerate(table.devices):
        for place, entry in enumerate(device.entries):
            where = f"{here}.devices[{number}].entries[{place}]"
            if len(entry.ranges) != len(table.sizes):
                unfit(where, f"has {len(entry.ranges)} ranges, and there are {len(table.sizes)} sizes")
            if {name for name, _ in entry.point} != axes.keys() or len(entry.point) != len(axes):
                unfit(where, f"its point has other axes than the kernel, which has {', '.join(axes) or 'none'}")
