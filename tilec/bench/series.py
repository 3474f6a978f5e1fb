"""Groups measurements of one case, over a sweep or its variants, for plots and tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from tilec.bench.report import CaseBench
from tilec.bench.statistics import Interval
from tilec.bench.work import MEMORY_BOUND, Work

GB, TFLOP = "GB/s", "TFLOP/s"
SCALES = {GB: 1e9, TFLOP: 1e12}
Row = tuple[str, str, str, str]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Spot:
    """One measurement of a group.

    Attributes:
        label: name of the kernel, variant or rival.
        rival: whether a rival was measured.
        at: the swept value.
        seconds, interval: median time of a launch, and its confidence interval.
        rate: work per second, or None if unknown.
    """

    label: str = ""
    rival: bool = False
    at: str = ""
    seconds: float
    interval: Interval
    rate: float | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """One plot.

    Attributes:
        base: the case.
        sweep: what changes from point to point; empty for variants alone.
        values: values of the sweep, in order.
        unit: unit of the rate that bounds the kernel; empty if the case does not state its work.
        dtype: dtype of its matrix products.
        spots: the measurements, those of rivals last.
    """

    base: str
    sweep: str
    values: tuple[str, ...]
    unit: str
    dtype: str
    spots: tuple[Spot, ...]


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
        several = len({(spot.rival, spot.label) for spot in group.spots}) > 1
        rows = [
            (
                spot.at,
                spot.label if several else "",
                time_text(spot.seconds),
                rate_text(spot.rate, group.unit),
            )
            for spot in sorted(group.spots, key=lambda spot: group.values.index(spot.at))
        ]
        return (group.sweep, "", "time", group.unit), rows
    ranked = sorted((spot.seconds, spot.label) for spot in group.spots if not spot.rival)
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
    unit = unit_of(cases[0].work)
    spots: dict[tuple[bool, str, str], Spot] = {}
    for case in cases:
        for spot in _spots(case, unit):
            # Every variant is measured beside its rivals, which are shown once.
            spots.setdefault((spot.rival, spot.label, spot.at), spot)
    return Group(
        base=base,
        sweep=sweep,
        values=tuple(dict.fromkeys(spot.at for spot in spots.values())),
        unit=unit,
        dtype=cases[0].work.dtype,
        spots=tuple(sorted(spots.values(), key=lambda spot: spot.rival)),
    )


def _spots(case: CaseBench, unit: str) -> Iterator[Spot]:
    """Yield the measurements of a case and of its rivals."""
    assert case.point is not None
    amount = {TFLOP: case.work.flops, GB: case.work.bytes}.get(unit)
    own = (False, case.point.variant or case.kernel, case.measurement)
    rivals = ((True, rival.text, rival.measurement) for rival in case.rivals)
    for rival, label, measurement in (own, *rivals):
        if measurement is not None:
            summary = measurement.summary
            yield Spot(
                label=label,
                rival=rival,
                at=case.point.at,
                seconds=summary.median,
                interval=summary.interval,
                rate=None if amount is None else amount / summary.median,
            )
