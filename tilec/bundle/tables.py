"""Tuning tables in the bundle's index: their schema, and the rules that they pass; few kernels have one, so it is a file of its own."""

from __future__ import annotations

from typing import Any

from tilec.bundle.codec import integer, literal, record, row, sequence, text, unfit
from tilec.errors import ExpressionError
from tilec.model.expr import parse
from tilec.model.table import TableDevice, TableEntry, TuningTable

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


def check_table(here: str, table: TuningTable, axes: dict[str, tuple[Any, ...]], params: set[str]) -> None:
    """Entries speak of every size; their points have every axis, and sizes are of parameters. Raises Misfit."""
    for index, size in enumerate(table.sizes):
        try:
            unknown = parse(size).names - params
        except ExpressionError as error:
            unfit(f"{here}.sizes[{index}]", error.what)
        if unknown:
            unfit(f"{here}.sizes[{index}]", f"no parameter {min(unknown)!r}")
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
