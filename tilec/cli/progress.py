"""Progress of a build: a bar on a terminal, otherwise lines.

There is no progress with --quiet or --json.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilec.cli.app import App
from tilec.cli.style import style
from tilec.cli.tables import plural
from tilec.compile.events import Failed, Observer, Outcome, SilentObserver
from tilec_runtime.foreign import printable

if TYPE_CHECKING:
    from rich.progress import Progress

FAILURES_SHOWN = 3  # lines of failed jobs; all errors follow at the end of the build


@contextlib.contextmanager
def shown(app: App) -> Iterator[Observer]:
    """Show progress while the block runs."""
    drawable = (sys.stderr.encoding or "utf-8").lower().replace("-", "") == "utf8"
    if app.json or app.quiet:
        yield SilentObserver()
    elif sys.stderr.isatty() and drawable and not (app.settings.dumb or app.settings.ci):
        bar = BarProgress(app)
        try:
            yield bar
        finally:
            bar.finished()
    else:
        yield LineProgress(app)


class LineProgress:
    """Progress as a line per job, or per percent of a large build."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._total = self._done = self._failed = 0

    def started(self, total: int, cached: int) -> None:
        """Print the number of jobs to build."""
        self._total, self._done = total, cached
        if total > cached:
            more = f", {cached} more are cached" if cached else ""
            self._app.note(f"building {plural(total - cached, 'job')}{more}")

    def job_started(self, job_id: str) -> None:
        """Do nothing: the line is printed when the job is done."""

    def job_finished(self, job_id: str, outcome: Outcome) -> None:
        """Print a line if the percentage changed, or for one of the first failures."""
        before, self._done = self._percent(), self._done + 1
        counter = f"[{self._done:>{len(str(self._total))}}/{self._total}]"
        if isinstance(outcome, Failed):
            self._failed += 1
            if self._failed <= FAILURES_SHOWN or self._app.verbose:
                self._app.note(f"{counter} {style('failed', fg='red', bold=True)} {job_id}")
        elif self._percent() != before or self._app.verbose:
            seconds = "" if outcome.cached else f" ({outcome.seconds:.1f} s)"
            self._app.note(f"{counter} {job_id}{seconds}")

    def note(self, text: str) -> None:
        """Print a note."""
        self._app.note(f"note: {text}")

    def finished(self) -> None:
        """Print the number of failures without a line."""
        more = self._failed - FAILURES_SHOWN
        if more > 0 and not self._app.verbose:
            self._app.note(f"… and {plural(more, 'more failed job')}")

    def _percent(self) -> int:
        return 100 * self._done // self._total


class BarProgress:
    """Progress as a bar with the running jobs, drawn and removed by rich."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._running: dict[str, None] = {}
        self._failed = 0
        self._bar: Progress | None = None

    def started(self, total: int, cached: int) -> None:
        """Open the bar, unless all jobs are cached."""
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
        self._bar = Progress(
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failed]}", style="bold red"),
            TimeElapsedColumn(),
            TextColumn("{task.description}", style="dim", markup=False, table_column=rest),
            console=self._app.console(),
            transient=True,
            redirect_stdout=False,
            expand=True,
        )
        self._task = self._bar.add_task("", total=total, completed=cached, failed="")
        self._bar.start()

    def job_started(self, job_id: str) -> None:
        """Show the job as running."""
        self._running[job_id] = None
        self._update()

    def job_finished(self, job_id: str, outcome: Outcome) -> None:
        """Count the job."""
        self._running.pop(job_id, None)
        self._failed += isinstance(outcome, Failed)
        self._update(advance=1)

    def note(self, text: str) -> None:
        """Print a note above the bar."""
        if self._bar is not None:
            self._bar.console.print(printable(f"note: {text}"), soft_wrap=True)
        else:
            self._app.note(f"note: {text}")

    def finished(self) -> None:
        """Remove the bar."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()

    def _update(self, advance: int = 0) -> None:
        if self._bar is not None:
            failed = f"{self._failed} failed" if self._failed else ""
            text = printable(", ".join(self._running))  # the longest-running job is first
            self._bar.update(self._task, advance=advance, description=text, failed=failed)
