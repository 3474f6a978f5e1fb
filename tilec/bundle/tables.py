"""Tuning tables and dispatch rules in the bundle's index: their schema, and what they are held to; few kernels have any."""

from __future__ import annotations

from typing import Any

from tilec.bundle.codec import integer, literal, record, row, sequence, text, unfit
from tilec.errors import ExpressionError
from tilec.model.expr import parse
from tilec.model.kernel import KernelInfo
from tilec.model.table import DispatchRule, TableDevice, TableEntry, TuningTable

_POINT = sequence(row(text(most=500), literal), most=64)
TABLE = record(
    TuningTable,
    source=text(most=4096),
    sizes=sequence(text(most=10_000), most=64),
    devices=sequence(
        record(
            TableDevice,
            name=text(most=500),
            cc=row(integer(0, 999), integer(0, 999)),
            multiprocessors=integer(0),
            entries=sequence(
                record(TableEntry, ranges=sequence(row(integer(0), integer(0)), most=64), point=_POINT),
                most=100_000,
            ),
        ),
        most=1000,
    ),
)
RULES = sequence(record(DispatchRule, when=text(most=10_000), take=_POINT), most=64)


def check_choice(here: str, kernel: KernelInfo, axes: dict[str, tuple[Any, ...]], params: set[str]) -> None:
    """What says which variant a launch takes speaks of parameters and of axes that there are. Raises Misfit."""
    if kernel.table is not None:
        _check_table(f"{here}.table", kernel.table, axes, params)
    for index, rule in enumerate(kernel.rules):
        if rule.when:
            _check_names(f"{here}.rules[{index}].when", rule.when, params)
        for name, value in rule.take:
            if not any(value == built and type(value) is type(built) for built in axes.get(name, ())):
                unfit(f"{here}.rules[{index}].take", f"{name} = {value!r} is no value of an axis of the kernel")


def _check_names(here: str, expression: str, params: set[str]) -> None:
    try:
        unknown = parse(expression).names - params
    except ExpressionError as error:
        unfit(here, error.what)
    if unknown:
        unfit(here, f"no parameter {min(unknown)!r}")


def _check_table(here: str, table: TuningTable, axes: dict[str, tuple[Any, ...]], params: set[str]) -> None:
    """Entries speak of every size; their points have every axis, and sizes are of parameters."""
    for index, size in enumerate(table.sizes):
        _check_names(f"{here}.sizes[{index}]", size, params)
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
