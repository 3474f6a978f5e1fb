"""Writes a run as one HTML file: plots of sweeps, a roofline and tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from tilec.bench.plot import INSTALL, can_plot, group_plots, roofline
from tilec.bench.report import CaseBench
from tilec.bench.series import groups_of, rows_of
from tilec.bench.work import Ceilings
from tilec.package.pages import page_environment, page_policy, page_style


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """A run.

    Attributes:
        title: of the page.
        ceilings: of the device.
        results: of all cases.
        sweep: the swept name; empty for no sweep.
        heads, rows: the table of all cases, as text.
        notes: what makes it doubtful.
    """

    title: str
    ceilings: Ceilings | None
    results: Sequence[CaseBench]
    sweep: str = ""
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()


def render(report: Report, *, time_text: Callable[[float], str]) -> bytes:
    """Return the HTML file of a run; equal runs give equal bytes. It loads and runs nothing.

    Without matplotlib it has tables, and says how to get plots.
    """
    style, plots = page_style("bench"), can_plot()
    groups = []
    for group in groups_of(report.results, report.sweep):
        heads, rows = rows_of(group, time_text)
        images = group_plots(group, report.ceilings) if plots and group.sweep else []
        title = f"{group.base} by {group.sweep or 'variant'}"
        groups.append({"title": title, "heads": heads, "rows": rows, "images": images})
    template = page_environment("bench").get_template("report.html.jinja")
    text = template.render(
        report=report,
        style=style,
        policy=page_policy(style),
        groups=groups,
        roofline=roofline(report.results, report.ceilings) if plots else "",
        install="" if plots else INSTALL,
    )
    return text.encode("utf-8", "backslashreplace")
