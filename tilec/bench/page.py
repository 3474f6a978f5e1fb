"""Writes a run as one HTML file: plots of sweeps, a roofline and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilec.bench.plot import INSTALL, can_plot, group_plots, roofline
from tilec.bench.report import CaseBench
from tilec.bench.series import groups_of, rows_of
from tilec.bench.work import Ceilings
from tilec.package.pages import render_page


def render(
    results: Sequence[CaseBench],
    *,
    title: str,
    ceilings: Ceilings | None,
    sweep: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str],
    time_text: Callable[[float], str],
) -> bytes:
    """Return the HTML file of a run; equal runs give equal bytes. It loads and runs nothing.

    Without matplotlib it has tables, and says how to get plots.

    Args:
        results: of all cases.
        title: of the page.
        ceilings: of the device.
        sweep: the swept name; empty for no sweep.
        heads: titles of the table of all cases.
        rows: its texts.
        notes: lines about the run.
        time_text: formats seconds.
    """
    plots = can_plot()
    groups = []
    for group in groups_of(results, sweep):
        titles, lines = rows_of(group, time_text)
        images = group_plots(group, ceilings) if plots and group.sweep else []
        name = f"{group.base} by {group.sweep or 'variant'}"
        groups.append({"title": name, "heads": titles, "rows": lines, "images": images})
    return render_page(
        "bench",
        title=title,
        heads=heads,
        rows=rows,
        notes=notes,
        groups=groups,
        roofline=roofline(results, ceilings) if plots else "",
        install="" if plots else INSTALL,
    )
