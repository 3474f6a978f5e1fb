"""Plots a run as SVG images with matplotlib (the extra `plot`)."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from tilec.bench.report import CaseBench
from tilec.bench.series import GB, SCALES, TFLOP, Group, Spot
from tilec.bench.work import Ceilings

INSTALL = "pip install 'tilec[plot]'"
MICROSECONDS = "microseconds"
# Values that span this factor get a logarithmic axis.
LOGARITHMIC = 6
# A ceiling further above the measurements than this factor would press the plot flat.
NEAR = 4
_GREY = "#7f868d"  # readable on light and on dark pages
_STYLE = {
    "svg.hashsalt": "tilec",  # equal runs give equal bytes
    "text.parse_math": False,  # names may hold dollar signs
    "savefig.transparent": True,
    "text.color": _GREY,
    "axes.edgecolor": _GREY,
    "axes.labelcolor": _GREY,
    "xtick.color": _GREY,
    "ytick.color": _GREY,
    "grid.color": _GREY,
}


def can_plot() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def group_plots(group: Group, ceilings: Ceilings | None) -> list[str]:
    """Return the plots of a sweep: rates if known, and times."""
    return [_sweep(group, unit, ceilings) for unit in (group.unit, MICROSECONDS) if unit]


def roofline(results: Sequence[CaseBench], best: Ceilings | None) -> str:
    """Return the plot of operations per second by operations per byte; empty if unknown."""
    shown = [
        (case, case.work.intensity, case.rates.flops)
        for case in results
        if case.measurement is not None and case.rates.flops and case.work.intensity
    ]
    if best is None or not best.copy or not shown:
        return ""
    axes = _axes(TFLOP, "operations for each byte", x_log=True, y_log=True)
    for kernel in dict.fromkeys(case.kernel for case, _, _ in shown):
        spots = []
        for case, intensity, rate in shown:
            if case.kernel == kernel and case.measurement is not None:
                summary = case.measurement.summary
                spot = Spot(seconds=summary.median, interval=summary.interval, rate=rate)
                spots.append((intensity, spot))
        _points(axes, kernel, spots, TFLOP, "o")
    slope = best.copy / SCALES[TFLOP]
    dtypes = {case.work.dtype for case, _, _ in shown}
    peaks = {d: rate / SCALES[TFLOP] for d, rate in best.products.items() if d in dtypes}
    intensities = [intensity for _, intensity, _ in shown]
    low = min(intensities) / 2
    high = 2 * max([*intensities, *(peak / slope for peak in peaks.values())])
    for dtype, peak in peaks.items():
        knee = max(low, peak / slope)
        _ceiling(axes, (low, knee, high), (slope * low, peak, peak), f"products of {dtype}")
    if not peaks:
        _ceiling(axes, (low, high), (slope * low, slope * high), "copies")
    return _image(axes)


def _sweep(group: Group, unit: str, ceilings: Ceilings | None) -> str:
    try:
        positions = {value: float(value) for value in group.values}
    except ValueError:  # words stand in a row
        positions = {value: float(index) for index, value in enumerate(group.values)}
    y_log = unit == MICROSECONDS and _is_wide([spot.seconds for spot in group.spots])
    axes = _axes(unit, group.sweep, x_log=_is_wide(list(positions.values())), y_log=y_log)
    axes.set_xticks(list(positions.values()), list(positions), minor=False)
    for line in dict.fromkeys((spot.rival, spot.label) for spot in group.spots):
        spots = [spot for spot in group.spots if (spot.rival, spot.label) == line]
        _points(axes, line[1], [(positions[spot.at], spot) for spot in spots], unit, "o-")
    limit = None
    if ceilings is not None:
        limit = {GB: ceilings.copy, TFLOP: ceilings.products.get(group.dtype)}.get(unit)
    if limit and limit <= NEAR * max(spot.rate or 0.0 for spot in group.spots):
        limit /= SCALES[unit]
        axes.axhline(limit, linestyle="--", color=_GREY, label=f"at most {limit:.4g}")
    return _image(axes)


def _points(
    axes: Any, label: str, spots: Sequence[tuple[float, Spot]], unit: str, form: str
) -> None:
    """Draw spots with their intervals, as times or as rates."""
    rows = []
    for x, spot in spots:
        low, high = spot.interval.low, spot.interval.high
        if unit == MICROSECONDS:
            bounds = 1e6 * spot.seconds, 1e6 * low, 1e6 * high
        elif spot.rate is not None:
            # A rate is work over time, so its interval is that of the time inverted.
            work = spot.rate * spot.seconds / SCALES[unit]
            bounds = work / spot.seconds, work / high, work / low
        else:
            continue
        y, least, most = bounds
        rows.append((x, y, max(0.0, y - least), max(0.0, most - y)))
    if rows:
        xs, ys, below, above = zip(*rows, strict=True)
        axes.errorbar(xs, ys, yerr=(below, above), fmt=form, capsize=3, label=label)


def _ceiling(axes: Any, xs: Sequence[float], ys: Sequence[float], label: str) -> None:
    axes.plot(xs, ys, "--", color=_GREY, label=label)


def _is_wide(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) >= LOGARITHMIC * min(values)


def _axes(y_label: str, x_label: str, *, x_log: bool, y_log: bool) -> Any:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        axes = Figure(figsize=(7, 4), layout="constrained").add_subplot()
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.set_xscale("log" if x_log else "linear")
        axes.set_yscale("log" if y_log else "linear")
        axes.minorticks_off()
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter("{x:g}")  # powers of ten would be formulas, not parsed here
        axes.grid(visible=True, alpha=0.4)
    return axes


def _image(axes: Any) -> str:
    """Return a plot as a data URL: scripts and styles of an image cannot affect the page."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        if axes.get_yscale() == "linear":
            axes.set_ylim(bottom=0)
        # Given explicitly: matplotlib leaves out labels that begin with an underscore.
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(handles, labels, fontsize="small")
        out = io.BytesIO()
        axes.figure.savefig(out, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(out.getvalue()).decode()}"
