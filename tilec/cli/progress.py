"""Progress of a build: one line that changes on a terminal, otherwise a line for each percent."""

from __future__ import annotations

from tilec.cli.app import App
from tilec.cli.style import style
from tilec.cli.tables import plural
from tilec.compile.events import Done, Observer, Outcome

FAILURES_SHOWN = 3  # lines of failed jobs; all errors follow at the end of the build


def observer(app: App) -> Observer:
    """Return the observer that shows progress; with --quiet or --json it shows nothing."""
    return Observer() if app.json or app.quiet else Progress(app)


class Progress(Observer):
    """Shows the jobs of a build."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._total = self._done = self._failed = 0
        self._running: dict[str, None] = {}

    def started(self, total: int, cached: int) -> None:
        """Print the number of jobs to build."""
        self._total, self._done = total, cached
        if total > cached and not self._app.moving:
            more = f", {cached} more are cached" if cached else ""
            self._app.note(f"building {plural(total - cached, 'job')}{more}")

    def job_started(self, job_id: str) -> None:
        """Show the job as running."""
        self._running[job_id] = None
        self._redraw()

    def job_finished(self, job_id: str, outcome: Outcome) -> None:
        """Count the job; print a line if the percentage changed, or for one of the first failures."""
        before, self._done = self._percent(), self._done + 1
        self._running.pop(job_id, None)
        self._failed += not isinstance(outcome, Done)
        if self._app.moving:
            self._redraw()
            return
        counter = f"[{self._done:>{len(str(self._total))}}/{self._total}]"
        if not isinstance(outcome, Done):
            if self._failed <= FAILURES_SHOWN or self._app.verbose:
                self._app.note(f"{counter} {style('failed', fg='red', bold=True)} {job_id}")
        elif self._percent() != before or self._app.verbose:
            seconds = "" if outcome.cached else f" ({outcome.seconds:.1f} s)"
            self._app.note(f"{counter} {job_id}{seconds}")

    def note(self, text: str) -> None:
        """Print a note."""
        self._app.note(f"note: {text}")

    def finished(self) -> None:
        """Remove the line, or print the number of failures without one."""
        self._app.clear_status()
        more = self._failed - FAILURES_SHOWN
        if more > 0 and not (self._app.moving or self._app.verbose):
            self._app.note(f"… and {plural(more, 'more failed job')}")

    def _percent(self) -> int:
        return 100 * self._done // self._total

    def _redraw(self) -> None:
        failed = f", {self._failed} failed" if self._failed else ""
        running = f": {', '.join(self._running)}" if self._running else ""  # the oldest is first
        self._app.status(f"{self._done} of {self._total} jobs{failed}{running}")
