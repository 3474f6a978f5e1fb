"""How a build's progress looks: a live display on a terminal, plain lines elsewhere, nothing with
--quiet and --json.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING

from tilec.cli.app import App
from tilec.cli.style import style
from tilec.cli.tables import plural
from tilec.compile.events import Done, Failed, Observer, Outcome, SilentObserver
from tilec_runtime.foreign import printable

if TYPE_CHECKING:
    from rich.progress import Progress


def make_observer(app: App) -> Observer:
    """The display that fits this run."""
    if app.json or app.quiet:
        return SilentObserver()
    drawable = (sys.stderr.encoding or "utf-8").lower().replace(
        "-", ""
    ) == "utf8" and not app.settings.dumb
    if sys.stderr.isatty() and drawable and not app.settings.ci:
        return LiveProgress(app)
    return PlainProgress(app)


def close(observer: Observer) -> None:
    """Take a display off the screen, however the build ended."""
    if isinstance(observer, LiveProgress):
        observer.stop()


@dataclasses.dataclass(kw_only=True, slots=True)
class Tally:
    """What has happened so far. `cached` jobs count as done from the start."""

    total: int = 0
    cached: int = 0
    compiled: int = 0
    failed: int = 0

    @property
    def done(self) -> int:
        """Jobs with an outcome."""
        return self.cached + self.compiled + self.failed

    def count(self, outcome: Outcome) -> None:
        """Take note of one outcome."""
        match outcome:
            case Failed():
                self.failed += 1
            case Done(cached=True):
                self.cached += 1
            case Done():
                self.compiled += 1


class PlainProgress:
    """One line per job, or per percent in big builds: for CI logs and files."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._tally = Tally()
        self._percent = 0

    def started(self, total: int, cached: int) -> None:
        """Say how much there is to do."""
        self._tally = Tally(total=total, cached=cached)
        self._percent = self._percent_now()
        if total > cached:
            self._app.note(
                f"building {plural(total - cached, 'job')}"
                + (f", {cached} more are cached" if cached else "")
            )

    def job_started(self, job_id: str) -> None:
        """Nothing: the line comes when the job is done."""

    def job_finished(self, job_id: str, outcome: Outcome) -> None:
        """A line where the percentage moved or something failed."""
        self._tally.count(outcome)
        percent, before = self._percent_now(), self._percent
        self._percent = percent
        counter = f"[{self._tally.done:>{len(str(self._tally.total))}}/{self._tally.total}]"
        if isinstance(outcome, Failed):
            self._app.note(f"{counter} {style('failed', fg='red', bold=True)} {job_id}")
        elif percent != before or self._app.verbose:
            seconds = "" if outcome.cached else f" ({outcome.seconds:.1f} s)"
            self._app.note(f"{counter} {job_id}{seconds}")

    def note(self, text: str) -> None:
        """Pass it on."""
        self._app.note(f"note: {text}")

    def finished(self) -> None:
        """Nothing: the summary follows."""

    def _percent_now(self) -> int:
        return 100 * self._tally.done // self._tally.total if self._tally.total else 100


class LiveProgress:
    """A bar with what is running behind it, redrawn in place by rich; failures and notes scroll by
    above it.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._running: dict[str, None] = {}
        self._failed = 0
        self._bar: Progress | None = None

    def started(self, total: int, cached: int) -> None:
        """Open the display, unless everything is done already."""
        if total <= cached:
            return
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )
        from rich.table import Column

        rest = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        running = TextColumn("{task.description}", style="dim", markup=False, table_column=rest)
        failed = TextColumn("{task.fields[failed]}", style="bold red")
        columns = (
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            failed,
            TimeElapsedColumn(),
            running,
        )
        console = self._app.console(err=True)
        self._bar = Progress(
            *columns, console=console, transient=True, redirect_stdout=False, expand=True
        )
        self._task = self._bar.add_task("", total=total, completed=cached, failed="")
        self._bar.start()

    def job_started(self, job_id: str) -> None:
        """Show it as running."""
        self._running[job_id] = None
        self._show()

    def job_finished(self, job_id: str, outcome: Outcome) -> None:
        """Count it; a failure gets a line that stays."""
        self._running.pop(job_id, None)
        self._failed += isinstance(outcome, Failed)
        self._show(advance=1)
        if isinstance(outcome, Failed):
            self._line(f"failed {job_id}", color="red")

    def note(self, text: str) -> None:
        """A line that stays."""
        self._line(f"note: {text}")

    def finished(self) -> None:
        """Take the display away: the summary follows."""
        self.stop()

    def stop(self) -> None:
        """Close the display; what it showed is cleared."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()

    def _show(self, advance: int = 0) -> None:
        if self._bar is not None:
            failed = f"{self._failed} failed" if self._failed else ""
            text = printable(", ".join(self._running))  # the one that runs longest stands first
            self._bar.update(self._task, advance=advance, description=text, failed=failed)

    def _line(self, text: str, color: str = "") -> None:
        if self._bar is not None:
            self._bar.console.print(printable(text), style=color or None, soft_wrap=True)
        else:
            self._app.note(style(text, fg=color or None))
