"""Tuning tables: what a bundle ships of a tuning record, and which of its entries a launch takes;
pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilec_runtime.model.arch import Version
from tilec_runtime.values import value_class

AxisValue = str | int | float | bool
Point = tuple[tuple[str, AxisValue], ...]
Range = tuple[int, int]


@value_class(frozen=True, kw_only=True)
class DispatchRule:
    """Launches whose arguments the condition `when` holds for (empty: all) take this point, as far
    as it says.
    """

    when: str
    take: Point


@value_class(frozen=True, kw_only=True)
class TuningTable:
    """What a bundle ships of a record: all that a launch asks.

    Attributes:
        source: the record's path in the project, for messages.
        sizes: expressions over the launcher's parameters.
        devices: those whose target is in the bundle.
    """

    source: str
    sizes: tuple[str, ...]
    devices: tuple[TableDevice, ...]


@value_class(frozen=True, kw_only=True)
class TableEntry:
    """One row of a table: sizes in these ranges take this point of the matrix."""

    ranges: tuple[Range, ...]
    point: Point


@value_class(frozen=True, kw_only=True)
class TableDevice:
    """The rows of one device."""

    name: str
    cc: Version
    multiprocessors: int
    entries: tuple[TableEntry, ...]


@value_class(frozen=True, kw_only=True)
class Lookup:
    """What a table says of a launch: the entry, None where it has none, and why."""

    entry: TableEntry | None
    reason: str


def look_up(
    table: TuningTable,
    *,
    device: str,
    cc: Version,
    multiprocessors: int,
    sizes: Sequence[int],
    fits: Callable[[Point], bool],
) -> Lookup:
    """The entry of a table for a device and for sizes.

    The device of that name comes first, then those of its architecture, nearest number of
    multiprocessors first; a device without a fitting entry leaves it to the next.

    Args:
        table: the kernel's.
        device: the device's product name.
        cc: its compute capability.
        multiprocessors: how many it has.
        sizes: values of the table's size expressions.
        fits: whether a point is one that the launch may take: its dtypes are those of the
            arguments, its axes what the caller chose.
    """
    shown = (
        ", ".join(f"{text} = {value}" for text, value in zip(table.sizes, sizes, strict=True))
        or "any sizes"
    )
    near = nearest(table, device, cc, multiprocessors)
    if not near:
        known = ", ".join(tuned.name for tuned in table.devices) or "no device"
        return Lookup(
            entry=None,
            reason=f"{table.source} speaks of {known}, none of which is {device} or of its architecture",
        )
    inside = False
    for tuned in near:
        for entry in tuned.entries:
            if not all(
                low <= size <= high for (low, high), size in zip(entry.ranges, sizes, strict=True)
            ):
                continue
            if not fits(entry.point):
                inside = True
                continue
            ranges = (
                ", ".join(
                    f"{text} {_range(each)}"
                    for text, each in zip(table.sizes, entry.ranges, strict=True)
                )
                or "any sizes"
            )
            return Lookup(
                entry=entry,
                reason=f"{table.source} has it for {ranges} on {_kin(tuned, device, multiprocessors)}",
            )
    if inside:
        return Lookup(
            entry=None,
            reason=f"{table.source} has entries for {shown}, for other dtypes or axes than those of this call",
        )
    return Lookup(
        entry=None,
        reason=f"{table.source} has no entry for {shown} on {', '.join(tuned.name for tuned in near)}",
    )


def nearest(
    table: TuningTable, device: str, cc: Version, multiprocessors: int
) -> list[TableDevice]:
    """The devices of a table that say something of a device, in the order in which they are asked."""
    near = [tuned for tuned in table.devices if tuned.name == device or tuned.cc == cc]
    return sorted(
        near,
        key=lambda tuned: (
            tuned.name != device,
            abs(tuned.multiprocessors - multiprocessors),
            tuned.name,
        ),
    )


def same_point(point: Point, axes: Mapping[str, AxisValue]) -> bool:
    """Whether a point has these values; True is not 1."""
    values = dict(point)
    return all(
        name in values and values[name] == value and type(values[name]) is type(value)
        for name, value in axes.items()
    )


def _range(each: Range) -> str:
    low, high = each
    return str(low) if low == high else f"{low} to {high}"


def _kin(tuned: TableDevice, device: str, multiprocessors: int) -> str:
    if tuned.name == device:
        return device
    more = f"{tuned.multiprocessors} multiprocessors, this one has {multiprocessors}"
    return f"{tuned.name}, the nearest tuned device of the same architecture ({more})"
