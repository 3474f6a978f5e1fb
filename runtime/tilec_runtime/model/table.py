"""Tuning tables: the shipped part of tuning records, with look-up for a launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilec_runtime.model.arch import Version
from tilec_runtime.values import value_class

AxisValue = str | int | float | bool
Point = tuple[tuple[str, AxisValue], ...]
Range = tuple[int, int]


def axis_shown(value: AxisValue) -> str:
    """Return an axis value for messages; an empty text is ''."""
    return "''" if value == "" else str(value)


@value_class(frozen=True, kw_only=True)
class DispatchRule:
    """A rule for launches: if `when` holds, use the axes of the point `take`.

    An empty `when` always holds. The point may leave axes open.
    """

    when: str = ""
    take: Point


@value_class(frozen=True, kw_only=True)
class TuningTable:
    """The part of a tuning record that launches need.

    Attributes:
        source: path of the record in the project, for messages.
        sizes: expressions over the launcher's parameters.
        devices: tuned devices whose target is in the bundle.
    """

    source: str
    sizes: tuple[str, ...]
    devices: tuple[TableDevice, ...]


@value_class(frozen=True, kw_only=True)
class TableEntry:
    """One entry of a table: sizes in these ranges use this point of the matrix."""

    ranges: tuple[Range, ...]
    point: Point


@value_class(frozen=True, kw_only=True)
class TableDevice:
    """The entries of one device."""

    name: str
    cc: Version
    multiprocessors: int
    entries: tuple[TableEntry, ...]


def look_up(
    table: TuningTable,
    *,
    device: str,
    cc: Version,
    multiprocessors: int,
    sizes: Sequence[int],
    fits: Callable[[Point], bool],
) -> tuple[Point | None, str]:
    """Return the point of a table for a device and sizes, or None, and the reason.

    The tuned device of the same name goes first, then devices of the same architecture, the nearest
    number of multiprocessors first. The first device with a fitting entry is used.

    Args:
        table: tuning table of the kernel.
        device: product name of the device.
        cc: compute capability of the device.
        multiprocessors: number of multiprocessors of the device.
        sizes: values of the table's size expressions.
        fits: returns whether a point agrees with the arguments' dtypes and the caller's axes.
    """
    shown = (
        ", ".join(f"{text} = {value}" for text, value in zip(table.sizes, sizes, strict=True))
        or "any sizes"
    )
    near = nearest(table, device, cc, multiprocessors)
    if not near:
        known = ", ".join(tuned.name for tuned in table.devices) or "no device"
        return (
            None,
            f"{table.source} speaks of {known}, none of which is {device} or of its architecture",
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
            kin = _kin(tuned, device, multiprocessors)
            return entry.point, f"{table.source} has it for {ranges} on {kin}"
    if inside:
        why = f"entries for {shown}, for other dtypes or axes than those of this call"
    else:
        why = f"no entry for {shown} on {', '.join(tuned.name for tuned in near)}"
    return None, f"{table.source} has {why}"


def nearest(
    table: TuningTable, device: str, cc: Version, multiprocessors: int
) -> list[TableDevice]:
    """Return the tuned devices to use for a device, in order of preference."""
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
    """Whether a point has these values, of the same type: True differs from 1."""
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
