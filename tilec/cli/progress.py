"""How a build's progress looks: a live display on a terminal, plain lines elsewhere, nothing with --quiet and --json."""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tilec.cli.app import App
from tilec.cli.style import style
from tilec.cli.tables import plural, shorten
from tilec.compile.events import Done, Failed, Observer, Outcome, SilentObserver
from tilec_runtime.foreign import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.live import Live

Clock = Callable[[], float]
RUNNING_SHOWN = 8
REFRESH_PER_SECOND = 8


def make_observer(app: App) -> Observer:
    """The display that fits this run."""
    if app.json or app.quiet:
        return SilentObserver()
    drawable = (sys.stderr.encoding or "utf-8").lower().replace("-", "") == "utf8" and not app.settings.dumb
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
            self._app.note(f"building {plural(total - cached, 'job')}" + (f", {cached} more are cached" if cached else ""))

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
    """A bar with what is running below it, redrawn in place; failures and notes scroll by above it."""

    def __init__(self, app: App, clock: Clock = time.monotonic) -> None:
        self._app = app
        self._clock = clock
        self._lock = threading.Lock()
        self._tally = Tally()
        self._running: dict[str, float] = {}
        self._begin = clock()
        self._live: Live | None = None

    def started(self, total: int, cached: int) -> None:
        """Open the display, unless everything is done already."""
        self._tally = Tally(total=total, cached=cached)
        self._begin = self._clock()
        if total <= cached:
            return
        from rich.live import Live

        console = self._app.console(err=True)
        self._live = Live(self, console=console, refresh_per_second=REFRESH_PER_SECOND, transient=True, redirect_stdout=False)
        self._live.start(refresh=True)

    def job_started(self, job_id: str) -> None:
        """Show it as running."""
        with self._lock:
            self._running[job_id] = self._clock()

    def job_finished(self, job_id: str, outcome: Outcome) -> None:
        """Count it; a failure gets a line that stays."""
        with self._lock:
            self._running.pop(job_id, None)
            self._tally.count(outcome)
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
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _line(self, text: str, color: str = "") -> None:
        if self._live is not None:
            self._live.console.print(printable(text), style=color or None, soft_wrap=True)
        else:
            self._app.note(style(text, fg=color or None))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[RenderableType]:
        """The display as it is now; called by rich's own thread."""
        from rich.text import Text

        now = self._clock()
        with self._lock:
            tally = dataclasses.replace(self._tally)
            running = sorted(self._running.items(), key=lambda item: (item[1], item[0]))
        lines = layout(tally, [(name, now - since) for name, since in running], now - self._begin, options.max_width, console.height)
        styles = {"bar": "cyan", "failed": "bold red", "job": "dim"}
        for line in lines:
            text = Text(no_wrap=True, overflow="ellipsis")
            for part, kind in line:
                text.append(printable(part), styles.get(kind, ""))
            yield text


def layout(tally: Tally, running: list[tuple[str, float]], elapsed: float, width: int, height: int) -> list[list[tuple[str, str]]]:
    """The live display as lines of (text, kind) parts that fit `width` columns and less than `height` lines.

    Args:
        tally: what has happened so far.
        running: job ids with the seconds they have run, longest first.
        elapsed: seconds since the build began.
        width: columns of the terminal.
        height: lines of the terminal.
    """
    parts = [(f"{tally.done}/{tally.total}", "")]
    details = [(f"{tally.cached} cached", "") if tally.cached else None, (f"{tally.failed} failed", "failed") if tally.failed else None]
    parts += [part for part in details if part]
    parts.append((clock_text(elapsed), ""))
    # What matters most stays longest: the count, then failures, then the clock, then what was cached.
    for kind in ("cached", ":", "failed"):
        if _width(parts) > width:
            parts = [part for part in parts if kind not in part[0]] or parts
    room = width - _width(parts) - 3
    head: list[tuple[str, str]] = []
    if room >= 8:
        size = min(room, 40)
        full = size * tally.done // tally.total if tally.total else size
        head = [("━" * full, "bar"), ("╌" * (size - full), "job"), ("  ", "")]
    for index, part in enumerate(parts):
        head += [(" · ", "job")] * (index > 0) + [part]
    most = max(0, min(RUNNING_SHOWN, height - 3))
    shown = running[:most]
    lines = [head]
    for name, seconds in shown:
        time_text = f" {seconds:5.1f} s" if width >= 24 else ""
        lines.append([(f"  {shorten(name, width - len(time_text) - 3)}", ""), (time_text, "job")])
    if len(shown) < len(running) and most:
        lines.append([(shorten(f"  and {len(running) - len(shown)} more running", width), "job")])
    return lines


def _width(parts: list[tuple[str, str]]) -> int:
    return sum(len(text) for text, _ in parts) + 3 * (len(parts) - 1)


def clock_text(seconds: float) -> str:
    """`0:07`, `12:40`, `1:02:03`."""
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
