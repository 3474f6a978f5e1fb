"""Measurements as text: a row per case, rivals below it, notes at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from tilec.bench.gate import Change, Standing
from tilec.bench.measure import Measurement
from tilec.bench.page import render
from tilec.bench.plot import INSTALL, can_plot
from tilec.bench.report import CaseBench, RivalResult, Setting
from tilec.bench.saved import Saved
from tilec.bench.series import GB, TFLOP, groups_of, rate_text, rows_of
from tilec.bench.statistics import CONFIDENCE, Interval
from tilec.bench.work import Ceilings
from tilec.case.cases import BoundCase
from tilec.cli.app import App
from tilec.cli.failures import located_text
from tilec.cli.files import write_file
from tilec.cli.run_show import skipped_lines
from tilec.cli.style import style
from tilec.cli.tables import (
    Table,
    cells,
    grouped,
    listed,
    plural,
    table,
    terminal_width,
    time_text,
)

TITLES = ("case", "time", "95%", "launch", "GB/s", "TFLOP/s", "of max")
REPORT_HEADS = (*TITLES, "variant", "against saved", "against")
HEADS = ("~case", *(f">{title}" for title in TITLES[1:]))
SIZES = (9, 6, 8, 6, 7, 8)  # widths of the numbers
BOUNDS = {"memory": "mem", "compute": "math", "": ""}
COLORS = {Standing.SLOWER: "red", Standing.FASTER: "green", Standing.UNCLEAR: "yellow"}
SHOWN = 4


class Rows:
    """Prints each case as it ends, with its rivals below.

    Args:
        app: run of the command.
        cases: all cases.
    """

    def __init__(self, app: App, cases: Sequence[BoundCase]) -> None:
        self._app = app
        names = [case.name for case in cases]
        names += [f"  {text}" for case in cases if case.bench for text in case.bench.against]
        self._table = Table(HEADS, (max(map(cells, names)), *SIZES), width=terminal_width())
        app.say(self._table.head(), wrap=False)

    def print(self, case: CaseBench) -> None:
        """Print one case."""
        if case.measurement is None:
            word, color = ("skip", "yellow") if case.status == "skipped" else ("ERROR", "red")
            self._app.say(self._table.row([case.name, (word, color)]), wrap=False)
            if case.error is not None:
                for line in located_text(case.error, self._app.show).splitlines():
                    self._app.say(f"  {line}")
            return
        self._app.say(self._table.row([case.name, *numbers(case)]), wrap=False)
        for rival in case.rivals:
            if rival.measurement is not None:
                lead = self._table.row([f"  {rival.text}", *_times(rival.measurement)])
                self._app.say(f"{lead}  {_rival_text(rival)}", wrap=False)
        if case.change is not None:
            text = f"  {change_text(case.change)}"
            self._app.say(style(text, fg=COLORS.get(case.change.standing)))


def numbers(case: CaseBench) -> list[str]:
    """Return the cells of a measured case: time, interval, host, rates, share."""
    assert case.measurement is not None
    share = "-"
    if case.rates.share is not None:
        share = f"{100 * case.rates.share:.0f}% {BOUNDS[case.rates.bound]}".rstrip()
    return [
        *_times(case.measurement),
        "-" if case.host is None else time_text(case.host),
        rate_text(case.rates.bytes, GB),
        rate_text(case.rates.flops, TFLOP),
        share,
    ]


def head_lines(setting: Setting, ceilings: Ceilings | None, clocks_missing: str) -> Iterator[str]:
    """Yield the device and its ceilings."""
    if setting.kind == "cpu":
        yield f"on the cpu device ({setting.device}): these are times of an interpreter, and no measure of a GPU"
    else:
        cache = "cold" if setting.cold else "hot"
        yield f"on {setting.device}, driver {setting.driver}, L2 cache {cache}"
    if ceilings is not None:
        parts = [f"copy {rate_text(ceilings.copy, GB)} GB/s"] if ceilings.copy else []
        rates = [f"{dtype} {rate_text(rate, TFLOP)}" for dtype, rate in ceilings.products.items()]
        if rates:
            parts.append(f"products of {', '.join(rates)} TFLOP/s ({ceilings.by})")
        if parts:
            yield f"at most: {'; '.join(parts)}"
        if ceilings.missing:
            yield f"note: {ceilings.missing}"
    if clocks_missing:
        yield f"note: {clocks_missing}"
    yield ""


def end_lines(
    results: Sequence[CaseBench], saved: Saved | None, limit: float, *, gate: bool
) -> Iterator[str]:
    """Yield doubts about measurements, skipped cases, and comparisons."""
    lines = [*_doubts(results), *_rival_notes(results)]
    lines += skipped_lines(
        (case.kernel, case.reason) for case in results if case.status == "skipped"
    )
    if saved is not None:
        lines += _saved_lines(results, saved, limit, gate=gate)
    failed = sum(case.status == "error" for case in results)
    if failed:
        lines.append(f"{plural(failed, 'case')} could not be measured")
    if lines:
        yield ""
        yield from lines


def _doubts(results: Sequence[CaseBench]) -> Iterator[str]:
    measured = [(case.name, case.measurement) for case in results if case.measurement is not None]
    held = ((", ".join(one.held_back), name) for name, one in measured if one.held_back)
    for reason, names in grouped(held).items():
        yield f"clocks were throttled ({reason}) during {listed(names, SHOWN)}"
    restless = [name for name, measurement in measured if not measurement.steady]
    if restless:
        yield f"not steady after warming up: {listed(restless, SHOWN)}"
    few = [name for name, one in measured if one.summary.interval.coverage < CONFIDENCE]
    if few:
        yield f"too few samples for an interval of 95%: {listed(few, SHOWN)}"


def _rival_notes(results: Sequence[CaseBench]) -> Iterator[str]:
    notes = (
        (f"{'not measured' if rival.reason else 'note'}: {text}", rival.text)
        for case in results
        for rival in case.rivals
        for text in (rival.reason, rival.note)
        if text
    )
    for text, calls in grouped(notes).items():
        yield f"{listed(calls, SHOWN)}: {text}"


def _saved_lines(
    results: Sequence[CaseBench], saved: Saved, limit: float, *, gate: bool
) -> Iterator[str]:
    uncompared = ((case.uncompared, case.name) for case in results if case.uncompared)
    for reason, names in grouped(uncompared).items():
        yield f"not compared: {listed(names, SHOWN)}: {reason}"
    left = [name for name in saved.cases if name not in {case.name for case in results}]
    if left:
        yield f"saved, but not measured in this run: {listed(left, SHOWN)}"
    changes = [(case, case.change.standing) for case in results if case.change is not None]
    same_code = [case.name for case, how in changes if how is Standing.SLOWER and case.same_code]
    if same_code:
        yield f"{listed(same_code, SHOWN)}: the code is that of the saved times, so something else is slower"
    unclear = [case.name for case, how in changes if how is Standing.UNCLEAR]
    if unclear:
        noisy = listed(unclear, SHOWN)
        yield f"too noisy to tell: {noisy}; increase --seconds, or use an idle machine"
    totals = Counter(how for _, how in changes)
    counts = {standing: totals[standing] for standing in Standing if totals[standing]}
    shown = ", ".join(f"{count} {standing.value}" for standing, count in counts.items())
    compared = plural(len(changes), "case")
    message = f"{compared} compared with saved times, {100 * limit:g}% allowed"
    yield f"{_verdict(counts) if gate else ''}{message}: {shown or 'nothing to compare'}"


def _verdict(counts: Mapping[Standing, int]) -> str:
    """Return the verdict of a comparison; one without cases fails."""
    word, color = "ok", "green"
    if Standing.SLOWER in counts or not counts:
        word, color = "FAIL", "red"
    elif Standing.UNCLEAR in counts:
        word, color = "unclear", "yellow"
    return style(f"{word}: ", fg=color, bold=True)


def report_rows(results: Sequence[CaseBench]) -> list[list[str]]:
    """Return the rows of a report's table, below `REPORT_HEADS`."""
    rows = []
    for case in results:
        if case.measurement is None:
            reason = case.error.what if case.error is not None else case.reason
            rows.append([case.name, case.status, *[""] * (len(REPORT_HEADS) - 3), reason])
            continue
        change = "-"
        if case.change is not None:
            change = f"{case.change.ratio - 1:+.1%} {case.change.standing.value}"
        rivals = "; ".join(f"{rival.text}: {_rival_text(rival)}" for rival in case.rivals)
        rows.append([case.name, *numbers(case), case.variant, change, rivals])
    return rows


def markdown(results: Sequence[CaseBench], setting: Setting) -> str:
    """Return a Markdown table for a comment."""
    where = f"{setting.device}, driver {setting.driver}"
    if setting.kind == "cpu":
        where = "the cpu device (no measure of a GPU)"
    lines = [f"**tilec bench** on {where}", "", f"| {' | '.join(REPORT_HEADS)} |"]
    lines.append(f"|---|{'---:|' * (len(REPORT_HEADS) - 2)}---|")
    for row in report_rows(results):
        escaped = (text.replace("|", "\\|") for text in row)
        lines.append(f"| {' | '.join(escaped)} |")
    return "\n".join(lines) + "\n"


def _rival_text(rival: RivalResult) -> str:
    if rival.measurement is None or rival.interval is None:
        return "not measured"
    return ratio_text(rival.ratio, rival.interval)


def change_text(change: Change) -> str:
    """Format as `+7.9% against saved (+7.1% to +8.8%): slower`.

    The text continues with `also when measured again`, if so.
    """
    low, high = change.interval.low - 1, change.interval.high - 1
    again = ""
    if change.repeated:
        again = " when measured again, not at first"
        if change.standing in (Standing.SLOWER, Standing.UNCLEAR):
            again = ", also when measured again"
    span = f"({low:+.1%} to {high:+.1%})"
    return f"{change.ratio - 1:+.1%} against saved {span}: {change.standing.value}{again}"


def ratio_text(ratio: float, interval: Interval) -> str:
    """Format as `1.01x as long (1.00 to 1.02)` or `450x as fast (...)`."""
    low, high, word = interval.low, interval.high, "as long"
    if 0 < ratio < 0.1:  # small ratios are hard to read
        ratio, low, high, word = 1 / ratio, 1 / high, 1 / low, "as fast"
    ratio_, low_, high_ = (f"{x:.0f}" if x >= 100 else f"{x:.2f}" for x in (ratio, low, high))
    return f"{ratio_}x {word} ({low_} to {high_})"


def _times(measurement: Measurement) -> tuple[str, str]:
    """Return the median, and the wider half of its interval in percent of it."""
    interval, middle = measurement.summary.interval, measurement.summary.median
    half = max(interval.high - middle, middle - interval.low) / middle
    return time_text(middle), f"±{100 * half:.1f}%" if half < 1 else ">100%"


def variant_lines(results: Sequence[CaseBench], sweep: str) -> Iterator[str]:
    """Yield a table for each case whose variants were measured, the fastest first.

    Args:
        results: results of a run.
        sweep: name of the swept value; with one there is no order.
    """
    for group in () if sweep else groups_of(results, sweep):
        (variant, _, *titles), rows = rows_of(group, time_text)
        heads = (f"~{variant}", *(f">{title}" for title in titles))
        yield ""
        yield f"{group.base} by variant"
        cells_of = [[name, *times] for name, _, *times in rows]
        yield from table(heads, cells_of, width=terminal_width(), indent="  ")


def write_report(
    app: App,
    path: Path,
    results: Sequence[CaseBench],
    title: str,
    ceilings: Ceilings | None,
    sweep: str,
    notes: Sequence[str],
) -> None:
    """Write the HTML page of a run.

    Raises:
        OutputError: the file cannot be written; an existing file is unchanged.
    """
    data = render(
        results,
        title=title,
        ceilings=ceilings,
        sweep=sweep,
        heads=REPORT_HEADS,
        rows=report_rows(results),
        notes=[text for line in notes if (text := click.unstyle(line).strip())],
        time_text=time_text,
    )
    write_file(app, path, data, plural(len(results), "case"))
    if not can_plot():
        app.note(f"note: {app.show(path)} has tables and no plots: {INSTALL}")
