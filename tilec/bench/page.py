"""What was measured as one HTML file: a roofline, plots of sweeps and variants, tables; nothing is fetched, and nothing runs in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from tilec.bench.plot import Chart, Dot, Limit, Series, draw, is_wide
from tilec.bench.report import CaseBench, Setting
from tilec.bench.series import GB, TFLOP, Group, Spot, groups_of
from tilec.bench.statistics import Interval
from tilec.bench.work import Ceilings
from tilec.package.pages import page_environment, page_policy, page_style

# Limits are drawn up to so many times what was measured.
NEAR = 4


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """A run.

    Attributes:
        title: of the page.
        setting, ceilings: where it was measured.
        results: of all cases.
        sweep: what was swept; empty for nothing.
        heads, rows: the table of all cases, as text.
        notes: what makes it doubtful.
    """

    title: str
    setting: Setting
    ceilings: Ceilings | None
    results: Sequence[CaseBench]
    sweep: str = ""
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()


def render(report: Report, *, time_text: Callable[[float], str]) -> bytes:
    """The HTML file of a run; equal runs give equal bytes.

    Args:
        report: what to show.
        time_text: says seconds as text.
    """
    style = page_style("bench")
    groups = groups_of(report.results, report.sweep)
    text = (
        page_environment("bench")
        .get_template("report.html.jinja")
        .render(
            report=report,
            style=style,
            policy=page_policy(style),  # nothing runs
            roofline=_roofline(report, time_text),
            groups=[_shown(group, report.ceilings, time_text) for group in groups],
        )
    )
    return text.encode("utf-8", "backslashreplace")


def _shown(group: Group, ceilings: Ceilings | None, time_text: Callable[[float], str]) -> dict[str, Any]:
    """What the template shows of a group: charts of a sweep, or bars of variants."""
    if not group.sweep:
        ranked = sorted((line for line in group.lines if not line.rival), key=lambda line: line.points[0].seconds)
        best, worst = ranked[0].points[0].seconds, ranked[-1].points[0].seconds
        bars = [
            {"label": line.label, "time": time_text(s), "ratio": f"{s / best:.2f}x", "part": round(100 * s / worst, 1)}
            for line in ranked
            for s in (line.points[0].seconds,)
        ]
        return {"title": f"{group.base} by variant", "charts": [], "bars": bars}
    charts = [_rates(group, ceilings, time_text)] if group.unit else []
    return {"title": f"{group.base} by {group.sweep}", "charts": [*charts, _times(group, time_text)], "bars": []}


def _rates(group: Group, ceilings: Ceilings | None, time_text: Callable[[float], str]) -> Chart:
    def dot(x: float, spot: Spot) -> Dot | None:
        if spot.rate is None:
            return None
        # A rate is work over time: the interval of the one is that of the other, turned round.
        low, high = (spot.rate * spot.seconds / seconds for seconds in (spot.interval.high, spot.interval.low))
        return Dot(x=x, y=spot.rate, low=low, high=high, tip=f"{spot.rate:.4g} {group.unit}, {time_text(spot.seconds)}")

    best = _ceiling(group, ceilings)
    xs = [x for x, _ in _across(group)]
    most = max((spot.rate or 0.0 for line in group.lines for spot in line.points), default=0.0)
    # A limit that is far above all would press what was measured flat.
    limits = [Limit(label=f"at most {best:.4g}", places=((min(xs), best), (max(xs), best)))] if best and best <= NEAR * most else []
    return _chart(group, dot, group.unit, limits, y_log=False)


def _times(group: Group, time_text: Callable[[float], str]) -> Chart:
    def dot(x: float, spot: Spot) -> Dot:
        low, high = (1e6 * bound for bound in (spot.interval.low, spot.interval.high))
        return Dot(x=x, y=1e6 * spot.seconds, low=low, high=high, tip=time_text(spot.seconds))

    return _chart(group, dot, "microseconds", [], y_log=is_wide([spot.seconds for line in group.lines for spot in line.points]))


def _chart(group: Group, dot: Callable[[float, Spot], Dot | None], unit: str, limits: Sequence[Limit], *, y_log: bool) -> Chart:
    across = _across(group)
    places = {value: x for x, value in across}
    series = []
    for line in group.lines:
        made = []
        for spot in line.points:
            found = dot(places[spot.value], spot)
            if found is not None:
                made.append(dataclasses.replace(found, tip=f"{line.label}, {group.sweep}={spot.value}: {found.tip}"))
        if made:
            series.append(Series(label=line.label, dots=tuple(made)))
    return draw(
        series,
        title=f"{group.base}: {unit} by {group.sweep}",
        x_label=group.sweep,
        y_label=unit,
        x_values=across,
        x_log=is_wide([x for x, _ in across]),
        y_log=y_log,
        limits=limits,
    )


def _across(group: Group) -> list[tuple[float, str]]:
    """Where each value stands: at its number, or in a row where one is none."""
    try:
        return [(float(value), value) for value in group.values]
    except ValueError:
        return [(float(place), value) for place, value in enumerate(group.values)]


def _ceiling(group: Group, ceilings: Ceilings | None) -> float | None:
    if ceilings is None:
        return None
    if group.unit == GB:
        return ceilings.copy / 1e9 if ceilings.copy else None
    peak = ceilings.products.get(group.dtype) if group.unit == TFLOP else None
    return peak / 1e12 if peak else None


def _roofline(report: Report, time_text: Callable[[float], str]) -> Chart | None:
    """Operations each second by operations for each byte, below what the device can do; None where too little is known for it."""
    best = report.ceilings
    shown = [case for case in report.results if case.measurement is not None and case.rates.flops and case.work.intensity]
    if best is None or not best.copy or not shown:
        return None
    kernels = dict.fromkeys(case.kernel for case in shown)
    spots = [(case, case.work.intensity or 0.0, (case.rates.flops or 0.0) / 1e12) for case in shown]
    series = [
        Series(label=kernel, joined=False, dots=tuple(_spot(case, x, y, time_text) for case, x, y in spots if case.kernel == kernel))
        for kernel in kernels
    ]
    slope = best.copy / 1e12
    peaks = {dtype: rate / 1e12 for dtype, rate in best.products.items() if any(case.work.dtype == dtype for case in shown)}
    low = min(x for _, x, _ in spots) / 2
    high = max([2 * max(x for _, x, _ in spots), *(2 * peak / slope for peak in peaks.values())])
    limits = [
        Limit(label=f"products of {dtype}", places=((low, slope * low), (max(low, peak / slope), peak), (high, peak)))
        for dtype, peak in peaks.items()
    ] or [Limit(label="copies", places=((low, slope * low), (high, slope * high)))]
    return draw(
        series,
        title="Roofline",
        x_label="operations for each byte",
        y_label=TFLOP,
        x_log=True,
        y_log=True,
        limits=limits,
    )


def _spot(case: CaseBench, x: float, y: float, time_text: Callable[[float], str]) -> Dot:
    interval: Interval = case.interval
    low, high = (y * case.median / bound for bound in (interval.high, interval.low))
    share = "" if case.rates.share is None else f", {100 * case.rates.share:.0f}% of what {case.rates.bound} allows"
    return Dot(x=x, y=y, low=low, high=high, tip=f"{case.name}: {y:.3g} {TFLOP}{share}, {time_text(case.median)}")
