"""Measurements as lines of a plot: of one case, what it was swept over, its variants, and what it
was held against.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from statistics import median

from tilec.bench.report import CaseBench, Point
from tilec.bench.statistics import Interval, series_interval
from tilec.bench.work import MEMORY_BOUND, Work

GB, TFLOP = "GB/s", "TFLOP/s"
_SCALES = {GB: 1e9, TFLOP: 1e12, "": 1.0}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """One point of a line: where, how long a launch takes, within which interval, and what rate
    that is, in the group's unit.
    """

    value: str
    seconds: float
    interval: Interval
    rate: float | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """What is measured at several points: a kernel or one variant of it, or what it is held
    against.
    """

    label: str
    rival: bool
    points: tuple[Spot, ...]

    def at(self, value: str) -> Spot | None:
        """Its point there; None where it has none."""
        return next((point for point in self.points if point.value == value), None)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """One plot.

    Attributes:
        base: the case.
        sweep: what changes from point to point; empty where variants alone do.
        values: of that, in the order of the command line.
        unit: of rates: of that which bounds the kernel; empty where the case says nothing of its
            work.
        dtype: whose matrix products bound it.
        lines: the kernel's first.
    """

    base: str
    sweep: str
    values: tuple[str, ...]
    unit: str
    dtype: str
    lines: tuple[Line, ...]


def groups_of(results: Sequence[CaseBench], sweep: str) -> list[Group]:
    """The plots of a run: one for each case with several points that could be measured."""
    found: dict[str, list[tuple[Point, CaseBench]]] = {}
    for result in results:
        if result.point is not None and result.measurement is not None:
            found.setdefault(result.point.base, []).append((result.point, result))
    return [_group(base, rows, sweep) for base, rows in found.items()]


def _group(base: str, rows: Sequence[tuple[Point, CaseBench]], sweep: str) -> Group:
    work = rows[0][1].work
    unit = unit_of(work)
    lines: dict[tuple[bool, str], list[Spot]] = {}
    for point, case in rows:
        label = point.variant or case.kernel
        lines.setdefault((False, label), []).append(
            _spot(point.at, case.measurement.samples, case.work, unit)  # type: ignore[union-attr]
        )
        for rival in case.rivals:
            spots = lines.setdefault((True, rival.text), [])
            # Each variant is measured beside what it is held against, which is shown once.
            if rival.measurement is not None and all(spot.value != point.at for spot in spots):
                spots.append(_spot(point.at, rival.measurement.samples, case.work, unit))
    ordered = sorted(
        lines.items(), key=lambda item: item[0][0]
    )  # the kernel's lines stand first, in their order
    made = tuple(
        Line(label=label, rival=rival, points=tuple(spots))
        for (rival, label), spots in ordered
        if spots
    )
    values = tuple(dict.fromkeys(point.at for point, _ in rows))
    return Group(base=base, sweep=sweep, values=values, unit=unit, dtype=work.dtype, lines=made)


Row = tuple[str, str, str, str]


def rows_of(group: Group, time_text: Callable[[float], str]) -> tuple[Row, list[Row]]:
    """Return a group as a table, its head and its rows: a sweep in its order, variants the fastest
    first.
    """
    if group.sweep:
        several = len(group.lines) > 1
        spots = [
            (value, line.label if several else "", line.at(value))
            for value in group.values
            for line in group.lines
        ]
        rows = [
            (value, label, time_text(spot.seconds), rate_text(spot.rate))
            for value, label, spot in spots
            if spot is not None
        ]
        return (group.sweep, "", "time", group.unit), rows
    ranked = sorted((line.points[0].seconds, line.label) for line in group.lines if not line.rival)
    rows = [
        (label, "", time_text(seconds), f"{seconds / ranked[0][0]:.2f}x")
        for seconds, label in ranked
    ]
    return ("variant", "", "time", "to best"), rows


def rate_text(rate: float | None) -> str:
    """A rate with three digits that count; empty for none."""
    return "" if rate is None else f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"


def unit_of(work: Work) -> str:
    """The rate that says most of a kernel: operations where there are many for each byte, else
    bytes.
    """
    if work.flops is not None and (work.bytes is None or (work.intensity or 0.0) > MEMORY_BOUND):
        return TFLOP
    return GB if work.bytes is not None else ""


def _spot(value: str, samples: Sequence[float], work: Work, unit: str) -> Spot:
    seconds = median(samples)
    amount = work.flops if unit == TFLOP else work.bytes if unit == GB else None
    rate = amount / seconds / _SCALES[unit] if amount is not None else None
    return Spot(value=value, seconds=seconds, interval=series_interval(samples), rate=rate)
