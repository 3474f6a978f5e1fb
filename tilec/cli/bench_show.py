"""What was measured as text: a row for each case, what it was held against below it, and what makes
any of it doubtful at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

import click

from tilec.bench.gate import Change, Standing
from tilec.bench.measure import Measurement
from tilec.bench.page import Report, render
from tilec.bench.plot import INSTALL, can_plot
from tilec.bench.report import CaseBench, Point, RivalResult, Setting
from tilec.bench.saved import Saved, unlike
from tilec.bench.series import groups_of, rows_of
from tilec.bench.statistics import Interval, series_interval
from tilec.bench.work import Ceilings, Rates
from tilec.case.cases import BoundCase
from tilec.cli.app import App
from tilec.cli.failures import located_text
from tilec.cli.run_results import skipped_lines
from tilec.cli.style import style
from tilec.cli.tables import bytes_text, cells, columns, plural, shorten, table, terminal_width
from tilec.cli.tune_show import time_text
from tilec.model.atomic import atomic_write

# Of names, in so many columns in all; a terminal that is wider leaves them more.
MOST_WIDTH, WIDTH = 25, 80
BOUNDS = {"memory": "mem", "compute": "math", "": ""}
TINTS = {
    Standing.SLOWER: "red",
    Standing.FASTER: "green",
    Standing.UNCLEAR: "yellow",
    Standing.SAME: "",
}


class Table:
    """Prints each case as it ends, in columns as wide as its names, up to what the terminal leaves
    for them.

    Points of a case stand below its name, each by what makes it one.

    Args:
        app: prints.
        cases: that will come.
        points: which of them are points, by name.
    """

    def __init__(self, app: App, cases: Sequence[BoundCase], points: Mapping[str, Point]) -> None:
        self._app, self._begun, self._base = app, False, ""
        names = [_label(case.name, points.get(case.name)) for case in cases]
        names += [
            f"{_lead(points.get(case.name))}  {text}"
            for case in cases
            for text in (case.bench.against if case.bench else ())
        ]
        self._width, width = max(map(cells, names)), terminal_width()
        if width is not None:
            self._width = min(self._width, max(MOST_WIDTH, width - WIDTH + MOST_WIDTH))

    def print(self, case: CaseBench) -> None:
        """One case."""
        if not self._begun:
            self._begun = True
            head = f"{'case':<{self._width}}  {'time':>9}  {'95%':>6}  {'launch':>7}  {'GB/s':>6}  {'TFLOP/s':>7}  {'of max':>8}"
            self._app.say(style(head, bold=True))
        name, lead = self._head(case), _lead(case.point)
        if case.measurement is None:
            word, tint = ("skip", "yellow") if case.status == "skipped" else ("ERROR", "red")
            self._app.say(f"{name}  {style(f'{word:>9}', fg=tint, bold=True)}")
            if case.error is not None:
                self._app.say(
                    "\n".join(
                        f"  {line}"
                        for line in located_text(case.error, self._app.show).splitlines()
                    )
                )
            return
        host = host_text(case.host)
        rates = f"{rate_text(case.rates.bytes, 1e9):>6}  {rate_text(case.rates.flops, 1e12):>7}  {share_text(case.rates):>8}"
        self._app.say(f"{name}  {_times(case.measurement)}  {host:>7}  {rates}".rstrip())
        for rival in case.rivals:
            if rival.measurement is not None and rival.interval is not None:
                self._app.say(
                    f"{self._name(f'{lead}  {rival.text}')}  {_times(rival.measurement)}  {ratio_text(rival.ratio, rival.interval)}"
                )
        if case.change is not None:
            tint = TINTS[case.change.standing]
            text = f"{lead}  {change_text(case.change)}"
            self._app.say(style(text, fg=tint) if tint else text)

    def _head(self, case: CaseBench) -> str:
        """What stands in front of a case's numbers; of a point in full, for the middle of its name
        is what tells it from the others.
        """
        base = case.point.base if case.point is not None else ""
        if base and base != self._base:
            self._app.say(base)
        self._base = base
        label = _label(case.name, case.point)
        if base and cells(label) > self._width:
            self._app.say(label)
            label = ""
        return self._name(label)

    def _name(self, name: str) -> str:
        short = shorten(name, self._width)
        return short + " " * (self._width - cells(short))


def _label(name: str, point: Point | None) -> str:
    return name if point is None else f"{_lead(point)}{name.removeprefix(point.base).strip()}"


def _lead(point: Point | None) -> str:
    return "" if point is None else "  "


def head_lines(setting: Setting, ceilings: Ceilings | None, clocks_missing: str) -> Iterator[str]:
    """Where it is measured, and what the device can do at most."""
    if setting.kind == "cpu":
        yield f"on the cpu device ({setting.device}): these are times of an interpreter, and say nothing of a GPU"
    else:
        yield f"on {setting.device}, driver {setting.driver}, L2 cache {'cold' if setting.cold else 'hot'}"
    if ceilings is not None:
        parts = [f"copy {rate_text(ceilings.copy, 1e9)} GB/s"] if ceilings.copy else []
        if ceilings.products:
            products = ", ".join(
                f"{dtype} {rate_text(rate, 1e12)}" for dtype, rate in ceilings.products.items()
            )
            parts.append(f"products of {products} TFLOP/s ({ceilings.by})")
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
    """What makes measurements doubtful, what was left out and why, and how all stands to what was
    saved.
    """
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
    held: dict[str, list[str]] = {}
    for name, found in measured:
        if found.held_back:
            held.setdefault(", ".join(found.held_back), []).append(name)
    for reason, names in held.items():
        yield f"clocks were held back ({reason}) during {_some(names)}"
    restless = [name for name, found in measured if not found.steady]
    if restless:
        yield f"not steady after warming up: {_some(restless)}"
    few = [name for name, found in measured if series_interval(found.samples).coverage < 0.95]
    if few:
        yield f"too few samples for an interval of 95%: {_some(few)}"


def _rival_notes(results: Sequence[CaseBench]) -> Iterator[str]:
    why: dict[str, dict[str, None]] = {}
    for case in results:
        for rival in case.rivals:
            for text in (rival.reason, rival.note):
                if text:
                    why.setdefault(f"{'not measured' if rival.reason else 'note'}: {text}", {})[
                        rival.text
                    ] = None
    for text, calls in why.items():
        yield f"{_some(list(calls))}: {text}"


def _saved_lines(
    results: Sequence[CaseBench], saved: Saved, limit: float, *, gate: bool
) -> Iterator[str]:
    uncompared: dict[str, list[str]] = {}
    for case in results:
        if case.uncompared:
            uncompared.setdefault(case.uncompared, []).append(case.name)
    for reason, names in uncompared.items():
        yield f"not compared: {_some(names)}: {reason}"
    if other := unlike(saved, results):
        yield f"note: {other}"
    left = [name for name in saved.cases if name not in {case.name for case in results}]
    if left:
        yield f"saved and not measured now: {_some(left)}"
    by = {
        standing: [
            case for case in results if case.change is not None and case.change.standing is standing
        ]
        for standing in Standing
    }
    compared = sum(map(len, by.values()))
    alike = [case.name for case in by[Standing.SLOWER] if case.same_code]
    if alike:
        yield f"{_some(alike)}: the code is the same as then, so that something else is slower"
    if by[Standing.UNCLEAR]:
        yield f"too noisy to tell: {_some([case.name for case in by[Standing.UNCLEAR]])}; take more --seconds, on a quiet machine"
    counts = ", ".join(f"{len(cases)} {standing.value}" for standing, cases in by.items() if cases)
    verdict = ""
    if gate:
        word, tint = (
            ("FAIL", "red")
            if by[Standing.SLOWER] or not compared
            else ("unclear", "yellow")
            if by[Standing.UNCLEAR]
            else ("ok", "green")
        )
        verdict = style(f"{word}: ", fg=tint, bold=True)
    yield f"{verdict}{plural(compared, 'case')} held against what was saved, {100 * limit:g}% allowed: {counts or 'nothing to compare'}"


def markdown(results: Sequence[CaseBench], setting: Setting) -> str:
    """A table for a comment."""
    where = (
        "the cpu device (says nothing of a GPU)"
        if setting.kind == "cpu"
        else f"{setting.device}, driver {setting.driver}"
    )
    changes = any(case.change is not None for case in results)
    heads = [
        "case",
        "time",
        "95%",
        "launch",
        "GB/s",
        "TFLOP/s",
        "of max",
        *(["against saved"] if changes else []),
        "against",
    ]
    lines = [
        f"**tilec bench** on {where}",
        "",
        f"| {' | '.join(heads)} |",
        f"|---|{'---:|' * (len(heads) - 2)}---|",
    ]
    for case in results:
        if case.measurement is None:
            row = [_escaped(case.name), case.status, *[""] * (len(heads) - 2)]
        else:
            host = host_text(case.host)
            rates = [
                rate_text(case.rates.bytes, 1e9),
                rate_text(case.rates.flops, 1e12),
                share_text(case.rates) or "-",
            ]
            times = [
                time_text(median(case.measurement.samples)),
                half_width(case.measurement),
                host,
            ]
            change = [_change_cell(case.change)] if changes else []
            row = [
                _escaped(case.name),
                *times,
                *rates,
                *change,
                "<br>".join(_rival_cell(rival) for rival in case.rivals),
            ]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def _change_cell(change: Change | None) -> str:
    if change is None:
        return "-"
    bold = "**" if change.standing in (Standing.SLOWER, Standing.FASTER) else ""
    return f"{bold}{change.ratio - 1:+.1%} {change.standing.value}{bold}"


def _rival_cell(rival: RivalResult) -> str:
    text = f"`{_escaped(rival.text)}`"
    return (
        f"{text} {_times_text(rival.ratio)}x as long"
        if rival.measurement is not None
        else f"{text} not measured"
    )


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def change_text(change: Change) -> str:
    """`+7.9% against saved (+7.1% to +8.8%): slower, also when measured again`."""
    low, high = change.interval.low - 1, change.interval.high - 1
    again = ""
    if change.repeated:
        sure = change.standing not in (Standing.SLOWER, Standing.UNCLEAR)
        again = ", also when measured again" if not sure else " when measured again, not at first"
    return f"{change.ratio - 1:+.1%} against saved ({low:+.1%} to {high:+.1%}): {change.standing.value}{again}"


def ratio_text(ratio: float, interval: Interval) -> str:
    """`1.01x as long (1.00 to 1.02)`: what a rival takes for each unit of the kernel's time."""
    return f"{_times_text(ratio)}x as long ({_times_text(interval.low)} to {_times_text(interval.high)})"


def _times_text(times: float) -> str:
    """Two digits behind the point; none where there are many before it, and more where they would
    all be 0.
    """
    return f"{times:.0f}" if times >= 100 else f"{times:.2f}" if times >= 0.095 else f"{times:.2g}"


def host_text(seconds: float | None) -> str:
    """What a launch costs the host, in no more than the 7 columns of its title: `3.4 us`, `123 us`,
    `1.2 ms`; a dash for not known.
    """
    if seconds is None:
        return "-"
    return (
        f"{seconds * 1e6:.1f} us"
        if seconds < 99.95e-6
        else f"{seconds * 1e6:.0f} us"
        if seconds < 999.5e-6
        else f"{seconds * 1e3:.3g} ms"
    )


def rate_text(rate: float | None, unit: float) -> str:
    """A rate in a unit, with up to three digits that count; a dash for what is not known."""
    if rate is None:
        return "-"
    value = rate / unit
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.005 or not value else "<0.01"


def amount_text(amount: float, unit: str) -> str:
    """`268 MFLOP`, `1.1 TFLOP`."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if amount >= scale:
            return f"{amount / scale:.3g} {prefix}{unit}"
    return f"{amount:.3g} {unit}"


def share_text(rates: Rates) -> str:
    """`93% mem`."""
    return "-" if rates.share is None else f"{100 * rates.share:.0f}% {BOUNDS[rates.bound]}"


def _times(found: Measurement) -> str:
    return f"{time_text(median(found.samples)):>9}  {half_width(found):>6}"


def half_width(found: Measurement) -> str:
    """The greater half of the interval of the median, as a part of it."""
    interval, middle = series_interval(found.samples), median(found.samples)
    half = max(interval.high - middle, middle - interval.low) / middle
    return f"±{100 * half:.1f}%" if half < 1 else ">100%"


def _some(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def plot_lines(results: Sequence[CaseBench], sweep: str) -> Iterator[str]:
    """A table of each case with several points: a sweep in its order, beside what it is held
    against; variants the fastest first.

    Args:
        results: of a run.
        sweep: what changes; empty where variants alone do.
    """
    for group in groups_of(results, sweep):
        (first, second, *numbers), rows = rows_of(group, time_text)
        lead = f">{first}" if group.sweep else f"~{first}"
        shown = [(lead, 0), *([(f"~{second}", 1)] if any(row[1] for row in rows) else [])]
        shown += [(f">{title}", place) for place, title in enumerate(numbers, 2) if title]
        yield ""
        yield f"{group.base} by {group.sweep or 'variant'}"
        heads = columns(*(title for title, _ in shown))
        yield from table(
            heads,
            [[row[place] for _, place in shown] for row in rows],
            width=terminal_width(),
            indent="  ",
        )


PAGE_HEADS = (
    "case",
    "time",
    "95%",
    "launch",
    "GB/s",
    "TFLOP/s",
    "of max",
    "variant",
    "held against",
)


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
        heads=PAGE_HEADS,
        rows=[_page_row(case) for case in results],
        notes=[text for line in notes if (text := click.unstyle(line).strip())],
    )
    data = render(report, time_text=time_text)
    with atomic_write(path) as file:
        file.write(data)
    app.say(f"wrote {app.show(path)}: {plural(len(results), 'case')}, {bytes_text(len(data))}")
    if not can_plot():
        app.note(f"note: {app.show(path)} has tables and no plots: {INSTALL}")


def _page_row(case: CaseBench) -> list[str]:
    if case.measurement is None:
        what = case.error.what if case.error is not None else case.reason
        return [case.name, case.status, *[""] * (len(PAGE_HEADS) - 3), what]
    rates = [
        rate_text(case.rates.bytes, 1e9),
        rate_text(case.rates.flops, 1e12),
        share_text(case.rates),
    ]
    against = "; ".join(map(_page_rival, case.rivals))
    change = f"{change_text(case.change)}. " if case.change is not None else ""
    return [
        case.name,
        time_text(case.median),
        half_width(case.measurement),
        host_text(case.host),
        *rates,
        case.variant,
        change + against,
    ]


def _page_rival(rival: RivalResult) -> str:
    if rival.measurement is None or rival.interval is None:
        return f"{rival.text}: not measured"
    return f"{rival.text}: {ratio_text(rival.ratio, rival.interval)}"
