"""`tilec bench --html`: what was measured as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from tilec.bench.page import Report, render
from tilec.bench.plot import INSTALL, can_plot
from tilec.bench.report import CaseBench, RivalResult
from tilec.bench.work import Ceilings
from tilec.cli.app import App
from tilec.cli.bench_show import change_text, half_width, host_text, rate_text, ratio_text, share_text
from tilec.cli.tables import bytes_text, plural
from tilec.cli.tune_show import time_text
from tilec_runtime.bundle.atomic import atomic_write

HEADS = ("case", "time", "95%", "launch", "GB/s", "TFLOP/s", "of max", "variant", "held against")


def write_report(
    app: App,
    path: Path,
    results: Sequence[CaseBench],
    *,
    title: str,
    ceilings: Ceilings | None,
    sweep: str,
    notes: Sequence[str],
) -> None:
    """Write the page of a run, whole or not at all.

    Args:
        app: says that it was written.
        path: the file.
        results: of all cases.
        title: of the page.
        ceilings: what can be done there at most.
        sweep: what was swept; empty for nothing.
        notes: lines of the terminal: where it was measured, and what makes it doubtful.

    Raises:
        OutputError: the file cannot be written; what was there before is untouched.
    """
    report = Report(
        title=title,
        ceilings=ceilings,
        results=results,
        sweep=sweep,
        heads=HEADS,
        rows=[_row(case) for case in results],
        notes=[text for line in notes if (text := click.unstyle(line).strip())],
    )
    data = render(report, time_text=time_text)
    with atomic_write(path) as file:
        file.write(data)
    app.say(f"wrote {app.show(path)}: {plural(len(results), 'case')}, {bytes_text(len(data))}")
    if not can_plot():
        app.note(f"note: {app.show(path)} has tables and no plots: {INSTALL}")


def _row(case: CaseBench) -> list[str]:
    if case.measurement is None:
        what = case.error.what if case.error is not None else case.reason
        return [case.name, case.status, *[""] * (len(HEADS) - 3), what]
    rates = [rate_text(case.rates.bytes, 1e9), rate_text(case.rates.flops, 1e12), share_text(case.rates)]
    against = "; ".join(map(_rival, case.rivals))
    change = f"{change_text(case.change)}. " if case.change is not None else ""
    return [case.name, time_text(case.median), half_width(case.measurement), host_text(case.host), *rates, case.variant, change + against]


def _rival(rival: RivalResult) -> str:
    if rival.measurement is None or rival.interval is None:
        return f"{rival.text}: not measured"
    return f"{rival.text}: {ratio_text(rival.ratio, rival.interval)}"
