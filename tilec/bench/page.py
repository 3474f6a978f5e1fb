"""What was measured as one HTML file: plots of sweeps, a roofline and tables; nothing is fetched,
and nothing runs in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from tilec.bench.plot import INSTALL, can_plot, group_plots, roofline
from tilec.bench.report import CaseBench
from tilec.bench.series import Group, groups_of, rows_of
from tilec.bench.work import Ceilings
from tilec.package.pages import page_environment, page_policy, page_style


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """A run.

    Attributes:
        title: of the page.
        ceilings: what the device can do at most.
        results: of all cases.
        sweep: what was swept; empty for nothing.
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
    """Return the HTML file of a run; equal runs give equal bytes. Without matplotlib it has tables
    and says how to get plots.
    """
    style, plots = page_style("bench"), can_plot()
    groups = [
        _shown(group, report.ceilings, time_text, plots=plots)
        for group in groups_of(report.results, report.sweep)
    ]
    text = (
        page_environment("bench")
        .get_template("report.html.jinja")
        .render(
            report=report,
            style=style,
            policy=page_policy(style),  # nothing runs
            groups=groups,
            roofline=roofline(report.results, report.ceilings) if plots else "",
            install="" if plots else INSTALL,
        )
    )
    return text.encode("utf-8", "backslashreplace")


def _shown(
    group: Group, ceilings: Ceilings | None, time_text: Callable[[float], str], *, plots: bool
) -> dict[str, Any]:
    """Return what the template shows of a group: its plots and its table."""
    heads, rows = rows_of(group, time_text)
    images = group_plots(group, ceilings) if plots and group.sweep else []
    return {
        "title": f"{group.base} by {group.sweep or 'variant'}",
        "heads": heads,
        "rows": rows,
        "images": images,
    }
