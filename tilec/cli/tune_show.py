"""Tuning as text and JSON: progress, tables of cases, written record or kit."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilec.bench.statistics import Summary
from tilec.cli.app import App
from tilec.cli.style import style
from tilec.cli.tables import (
    Cell,
    bytes_text,
    plural,
    seconds_text,
    time_text,
)
from tilec.manifest.types import Kernel
from tilec.model.codec import encode
from tilec.model.tuning import Status, TuningRecord
from tilec.tune.candidates import CompiledPoint, KernelFacts
from tilec.tune.session import CaseResult
from tilec.tune.space import Point, Space, point_text
from tilec.tune.trial import Trial
from tilec.tune.wire import Ready

SHOWN = 8  # candidates of a case; --verbose shows all
TINTS = {
    Status.BEST: "green",
    Status.MEASURED: "",
    Status.PRUNED: "yellow",
    Status.WRONG: "red",
    Status.FAILED: "red",
    Status.HUNG: "red",
}


class Display:
    """Shows trials as they happen."""

    def __init__(self, app: App, clock: Callable[[], float], *, budget: float = 0.0) -> None:
        self._app, self._clock, self._budget = app, clock, budget
        self._begun = clock()
        self._tried = 0

    def device(self, ready: Ready, target: str, names: Sequence[str]) -> None:
        """Print the devices."""
        device, app = ready.device, self._app
        many = f" on {len(names)} of them ({', '.join(names)})" if len(names) > 1 else ""
        app.note(
            f"tuning for {target} on {'the cpu device' if device.interprets else device.name}{many}"
        )
        if device.interprets:
            app.warn(
                "times of the cpu device are no measure of a GPU: the record is for the cpu device only"
            )
        elif ready.clocks_missing:
            app.note(f"note: {ready.clocks_missing}; throttling of the GPU is not detected")

    def case_begun(self, space: Space) -> None:
        """Start a case."""
        self._tried = 0
        self._app.detail(f"{space.case.name}: {plural(len(space.points), 'candidate')}")
        self._app.status(f"{space.case.name}: compiling")

    def trial_ended(self, space: Space, trial: Trial, best: Trial | None) -> None:
        """Show the progress, and the best candidate so far."""
        self._tried += 1
        winner = (
            f"best {time_text(best.seconds)} ({point_text(best.point, space.free)})"
            if best
            else "none is correct so far"
        )
        clock = seconds_text(self._clock() - self._begun) + (
            f" of {seconds_text(self._budget)}" if self._budget else ""
        )
        self._app.status(
            f"{space.case.name}: {self._tried} tried of {len(space.points)}, {winner}, {clock}"
        )
        if self._app.verbose:
            message = (
                time_text(trial.seconds)
                if trial.measurement
                else f"{trial.status.value}: {trial.reason}"
            )
            self._app.detail(f"{space.case.name}: {point_text(trial.point, space.free)}: {message}")

    def case_ended(self, result: CaseResult) -> None:
        """Print the table of a case, and remarks."""
        app = self._app
        app.clear_status()
        app.say(style(result.space.case.name, bold=True))
        _print_table(app, result)
        for line in (*_decision(result), *_doubts(result)):
            app.say(f"  {line}")
        app.say()

    def note(self, text: str) -> None:
        """Print a note."""
        self._app.note(f"note: {text}")


def _print_table(app: App, result: CaseResult) -> None:
    """Print the candidates of a case, the fastest first."""
    space, best = result.space, result.best
    rest = sorted((one for one in result.trials if one is not best), key=lambda one: one.rank)
    ordered = [best, *rest] if best else rest
    shown = ordered if app.verbose else ordered[:SHOWN]
    rows: list[list[Cell]] = []
    for trial in shown:
        status = Status.BEST if trial is best else trial.status
        row: list[Cell] = [point_text(trial.point, space.free), (status.value, TINTS[status])]
        if trial.measurement is None:
            rows.append([*row, "-", "-", "-", trial.reason])
            continue
        summary, ratio, why = trial.measurement.summary, "-", ""
        if best and trial is not best:
            ratio = _ratio_text(trial.seconds / best.seconds)
            why = f"behind after {trial.effort:.0%}" if trial.effort < best.effort else ""
        rows.append([*row, time_text(summary.median), spread_text(summary), ratio, why])
    heads = ("candidate", "result", ">median", ">95 %", ">to best", "~why")
    app.table(heads, rows, indent="  ")
    hidden = Counter(trial.status.value for trial in ordered[len(shown) :])
    if hidden:
        counts = ", ".join(f"{count} {status}" for status, count in hidden.items())
        app.say(f"  and {counts} (--verbose shows them)")


def _decision(result: CaseResult) -> Iterator[str]:
    best, second, runoff = result.best, result.second, result.runoff
    if best is None:
        none = (
            "no candidate is correct"
            if result.trials
            else f"no candidate was tried: {result.why_untried}"
        )
        yield style(none, fg="red", bold=True)
    elif runoff and second:
        other = point_text(second.point, result.space.free)
        pairs = plural(result.pairs, "pair")
        if runoff.interval.high < 1:
            low, high = 1 / runoff.interval.high - 1, 1 / runoff.interval.low - 1
            yield f"side by side, {low:.1%} to {high:.1%} faster than {other} ({pairs})"
        else:
            yield f"side by side, no difference from {other} ({pairs}): the lower median wins"


def _doubts(result: CaseResult) -> Iterator[str]:
    best = result.best
    if best and best.measurement and (far := best.measurement.summary.outliers):
        worst = max(far, key=lambda one: abs(one - best.seconds))
        count = len(best.measurement.samples)
        yield f"{plural(len(far), 'outlier')} among {count} samples, the furthest {time_text(worst)}; not removed"
    measured = [trial.measurement for trial in result.trials if trial.measurement]
    held = [one.held_back for one in measured if one.held_back]
    if held:
        reasons = ", ".join(dict.fromkeys(reason for reasons in held for reason in reasons))
        yield f"clocks were throttled ({reasons}) while {plural(len(held), 'candidate')} of {len(result.trials)} ran"
    restless = sum(not one.steady for one in measured)
    if restless:
        yield f"{plural(restless, 'candidate')} did not become steady while warming up"
    if result.untried and result.trials:
        yield f"{plural(result.untried, 'candidate')} not tried: {result.why_untried}"


def _ratio_text(ratio: float) -> str:
    """Format a ratio with two digits, or three if it is close to 1."""
    return f"{ratio:.{3 if ratio < 1.1 else 2}f}x"


def spread_text(summary: Summary) -> str:
    """Format the interval of a median in percent of it."""
    low, high = (
        bound / summary.median - 1 for bound in (summary.interval.low, summary.interval.high)
    )
    return f"{low:+.1%} {high:+.1%}"


def print_record(app: App, path: Path, record: TuningRecord, kernel: Kernel) -> None:
    """Print the written record, and the step to use it in builds."""
    device = record.devices
    entries = ", ".join(f"{plural(len(one.entries), 'entry')} for {one.name}" for one in device)
    app.say(f"{style('wrote', fg='green', bold=True)} {app.show(path)}: {entries}")
    if not kernel.table:
        named = _named_by_manifest(app, path)
        way = "commit it" if named else "copy it into the project, commit it"
        named = named or ("/".join(path.parts[-2:]) if path.parent.name == "tuning" else path.name)
        app.say(
            f'to build with it, {way} and add to [kernel.{kernel.name}.dispatch]: table = "{named}"'
        )


def _named_by_manifest(app: App, path: Path) -> str | None:
    """Return a path relative to the project, or None for a file outside."""
    root, path = app.root, Path(os.path.normpath(path))
    if root is None or not path.is_relative_to(root):
        return None
    return path.relative_to(root).as_posix()


def print_prepared(
    app: App,
    path: Path,
    facts: KernelFacts,
    cases: Sequence[str],
    compiled: Mapping[Point, CompiledPoint],
    failed: Mapping[Point, str],
) -> None:
    """Print the contents of a kit."""
    good = len(compiled) - len(failed)
    size = bytes_text(path.stat().st_size)
    app.say(
        f"{style('wrote', fg='green', bold=True)} {app.show(path)}: {plural(good, 'candidate')} for {facts.target}, {size}"
    )
    app.say(f"cases: {', '.join(cases)}")
    for point, reason in list(failed.items())[:SHOWN]:
        app.say(f"  {point_text(point)}: {reason}")
    app.say(f"measure it on a machine with a GPU: tilec tune --measure {path.name}")


def result_json(facts: KernelFacts, ready: Ready, results: Sequence[CaseResult]) -> dict[str, Any]:
    """Return a tuning as JSON values."""
    device = ready.device
    return {
        "target": facts.target,
        "device": {
            "kind": "cpu" if device.interprets else "cuda",
            "name": device.name,
            "driver": ready.driver,
        },
        "clocks_missing": ready.clocks_missing or None,
        "cases": [_case_json(result) for result in results],
    }


def _case_json(result: CaseResult) -> dict[str, Any]:
    runoff = result.runoff
    return {
        "name": result.space.case.name,
        "best": dict(result.best.point) if result.best else None,
        "median_us": result.best.seconds * 1e6 if result.best else None,
        "runoff": {
            "ratio": runoff.ratio,
            "interval": [runoff.interval.low, runoff.interval.high],
            "verdict": "first" if runoff.certain else "tie",
        }
        if runoff
        else None,
        "candidates": [{**encode(trial), "point": dict(trial.point)} for trial in result.trials],
        "untried": result.untried,
    }
