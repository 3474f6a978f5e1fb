"""Groups measurements of one case, over a sweep or its variants, for plots and tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from tilec.bench.report import CaseBench
from tilec.bench.statistics import Interval, summarize
from tilec.bench.work import MEMORY_BOUND, Work

GB, TFLOP = "GB/s", "TFLOP/s"
SCALES = {GB: 1e9, TFLOP: 1e12}
Row = tuple[str, str, str, str]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """The seconds of a launch with their interval, and its rate per second, if known."""

    seconds: float
    interval: Interval
    rate: float | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One kernel, variant or rival of a group, with its spots by swept value."""

    label: str
    rival: bool
    spots: dict[str, Spot]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """One plot.

    Attributes:
        base: the case.
        sweep: what changes from point to point; empty for variants alone.
        values: of the sweep, in order.
        unit: of the rate that bounds the kernel; empty if the case does not state its work.
        dtype: of its matrix products.
        lines: the kernel's first.
    """

    base: str
    sweep: str
    values: tuple[str, ...]
    unit: str
    dtype: str
    lines: tuple[Line, ...]


def groups_of(results: Sequence[CaseBench], sweep: str) -> list[Group]:
    """Return a group for each case that was measured at several points."""
    groups: dict[str, list[CaseBench]] = {}
    for result in results:
        if result.point is not None and result.measurement is not None:
            groups.setdefault(result.point.base, []).append(result)
    return [_group(base, cases, sweep) for base, cases in groups.items()]


def rows_of(group: Group, time_text: Callable[[float], str]) -> tuple[Row, list[Row]]:
    """Return head and rows of a group's table: a sweep in its order, variants fastest first."""
    if group.sweep:
        several = len(group.lines) > 1
        rows = [
            (
                value,
                line.label if several else "",
                time_text(spot.seconds),
                rate_text(spot.rate, group.unit),
            )
            for value in group.values
            for line in group.lines
            if (spot := line.spots.get(value)) is not None
        ]
        return (group.sweep, "", "time", group.unit), rows
    ranked = sorted(
        (spot.seconds, line.label)
        for line in group.lines
        for spot in line.spots.values()
        if not line.rival
    )
    best = ranked[0][0]
    rows = [(label, "", time_text(time), f"{time / best:.2f}x") for time, label in ranked]
    return ("variant", "", "time", "to best"), rows


def rate_text(rate: float | None, unit: str) -> str:
    """Format a rate per second in a unit, with three digits; a dash for None."""
    if rate is None:
        return "-"
    value = rate / SCALES[unit]
    if 0 < value < 0.005:
        return "<0.01"
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def unit_of(work: Work) -> str:
    """Return the unit of the rate that says most: operations at a high intensity, else bytes."""
    if work.flops is not None and (work.bytes is None or (work.intensity or 0.0) > MEMORY_BOUND):
        return TFLOP
    return GB if work.bytes is not None else ""


def _group(base: str, cases: Sequence[CaseBench], sweep: str) -> Group:
    unit, values = unit_of(cases[0].work), []
    own: dict[str, dict[str, Spot]] = {}
    rivals: dict[str, dict[str, Spot]] = {}
    for case in cases:
        assert case.point is not None
        at = case.point.at
        values.append(at)
        label = case.point.variant or case.kernel
        if case.measurement is not None:
            own.setdefault(label, {})[at] = _spot(case.measurement.samples, case.work, unit)
        for rival in case.rivals:
            if rival.measurement is not None:
                # Every variant is measured beside its rivals, which are shown once.
                spot = _spot(rival.measurement.samples, case.work, unit)
                rivals.setdefault(rival.text, {}).setdefault(at, spot)
    lines = [Line(label=label, rival=False, spots=spots) for label, spots in own.items()]
    lines += [Line(label=label, rival=True, spots=spots) for label, spots in rivals.items()]
    return Group(
        base=base,
        sweep=sweep,
        values=tuple(dict.fromkeys(values)),
        unit=unit,
        dtype=cases[0].work.dtype,
        lines=tuple(lines),
    )


def _spot(samples: Sequence[float], work: Work, unit: str) -> Spot:
    summary = summarize(samples)
    amount = {TFLOP: work.flops, GB: work.bytes}.get(unit)
    rate = amount / summary.median if amount is not None else None
    return Spot(seconds=summary.median, interval=summary.interval, rate=rate)
