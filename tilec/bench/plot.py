"""Plots of a run as SVG images, drawn by matplotlib (the extra `plot`)."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from tilec.bench.report import CaseBench
from tilec.bench.series import GB, TFLOP, Group
from tilec.bench.work import Ceilings

INSTALL = "pip install 'tilec[plot]'"
# Values that grow by this much in all are placed by their logarithms.
LOGARITHMIC = 6
# A ceiling further above than so many times what was measured would press the plot flat.
NEAR = 4
_GREY = "#7f868d"  # can be read on light and on dark pages
_STYLE = {
    "svg.hashsalt": "tilec",  # equal runs give equal bytes
    "text.parse_math": False,  # names may hold dollar signs
    "savefig.transparent": True,
    **dict.fromkeys(
        (
            "text.color",
            "axes.edgecolor",
            "axes.labelcolor",
            "xtick.color",
            "ytick.color",
            "grid.color",
        ),
        _GREY,
    ),
}


def can_plot() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def group_plots(group: Group, ceilings: Ceilings | None) -> list[str]:
    """Return the plots of a sweep: its rates, where they are known, and its times."""
    most = max((spot.rate or 0.0 for line in group.lines for spot in line.points), default=0.0)
    best = _ceiling(group, ceilings)
    limits = [best] if best and best <= NEAR * most else []
    rates = [_sweep(group, group.unit, limits)] if group.unit else []
    return [*rates, _sweep(group, "microseconds", [])]


def roofline(results: Sequence[CaseBench], best: Ceilings | None) -> str:
    """Return operations per second by operations per byte, below what the device can do; empty
    where too little is known.
    """
    shown = [
        case
        for case in results
        if case.measurement is not None and case.rates.flops and case.work.intensity
    ]
    if best is None or not best.copy or not shown:
        return ""
    axes = _axes(TFLOP, "operations for each byte", x_log=True, y_log=True)
    for kernel in dict.fromkeys(case.kernel for case in shown):
        cases = [case for case in shown if case.kernel == kernel]
        rates = [(case.rates.flops or 0.0) / 1e12 for case in cases]
        spread = [
            _spread(rate, case.median, case.interval.low, case.interval.high)
            for rate, case in zip(rates, cases, strict=True)
        ]
        _points(axes, kernel, [case.work.intensity or 0.0 for case in cases], rates, spread, "o")
    slope = best.copy / 1e12
    peaks = {
        dtype: rate / 1e12
        for dtype, rate in best.products.items()
        if any(case.work.dtype == dtype for case in shown)
    }
    intensities = [case.work.intensity or 0.0 for case in shown]
    low, high = (
        min(intensities) / 2,
        max([2 * max(intensities), *(2 * peak / slope for peak in peaks.values())]),
    )
    for dtype, peak in peaks.items():
        axes.plot(
            (low, max(low, peak / slope), high),
            (slope * low, peak, peak),
            "--",
            color=_GREY,
            label=f"products of {dtype}",
        )
    if not peaks:
        axes.plot((low, high), (slope * low, slope * high), "--", color=_GREY, label="copies")
    return _image(axes)


def _sweep(group: Group, unit: str, limits: Sequence[float]) -> str:
    try:
        places = {value: float(value) for value in group.values}
    except ValueError:  # words stand in a row
        places = {value: float(place) for place, value in enumerate(group.values)}
    times = [1e6 * spot.seconds for line in group.lines for spot in line.points]
    axes = _axes(
        unit,
        group.sweep,
        x_log=_is_wide(list(places.values())),
        y_log=unit == "microseconds" and _is_wide(times),
    )
    axes.set_xticks(list(places.values()), list(places), minor=False)
    for line in group.lines:
        spots = [
            (spot, spot.rate if unit == group.unit else 1e6 * spot.seconds) for spot in line.points
        ]
        known = [(spot, value) for spot, value in spots if value is not None]
        spread = [
            _spread(value, spot.seconds, spot.interval.low, spot.interval.high)
            if unit == group.unit
            else (
                1e6 * (spot.seconds - spot.interval.low),
                1e6 * (spot.interval.high - spot.seconds),
            )
            for spot, value in known
        ]
        _points(
            axes,
            line.label,
            [places[spot.value] for spot, _ in known],
            [value for _, value in known],
            spread,
            "o-",
        )
    for limit in limits:
        axes.axhline(limit, linestyle="--", color=_GREY, label=f"at most {limit:.4g}")
    return _image(axes)


def _spread(rate: float, seconds: float, low: float, high: float) -> tuple[float, float]:
    """Return how far a rate may be below and above: a rate is work over time, so its interval is
    that of the time turned round.
    """
    return max(0.0, rate - rate * seconds / high), max(0.0, rate * seconds / low - rate)


def _ceiling(group: Group, ceilings: Ceilings | None) -> float | None:
    if ceilings is None:
        return None
    if group.unit == GB:
        return ceilings.copy / 1e9 if ceilings.copy else None
    peak = ceilings.products.get(group.dtype) if group.unit == TFLOP else None
    return peak / 1e12 if peak else None


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
            axis.set_major_formatter(
                "{x:g}"
            )  # powers of ten are formulas to matplotlib, which are not parsed
        axes.grid(visible=True, alpha=0.4)
    return axes


def _points(
    axes: Any,
    label: str,
    xs: list[float],
    ys: list[float],
    spread: list[tuple[float, float]],
    form: str,
) -> None:
    if xs:
        below, above = zip(*spread, strict=True)
        axes.errorbar(xs, ys, yerr=(below, above), fmt=form, capsize=3, label=label)


def _image(axes: Any) -> str:
    """Return a plot as a data URL: scripts and styles of an image do nothing to the page."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        if axes.get_yscale() == "linear":
            axes.set_ylim(bottom=0)
        # matplotlib leaves out labels that begin with an underscore.
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(handles, labels, fontsize="small")
        out = io.BytesIO()
        axes.figure.savefig(out, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(out.getvalue()).decode()}"
