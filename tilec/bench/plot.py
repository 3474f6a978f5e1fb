"""Plots as geometry: where lines, marks and ticks go in a box of pixels; what draws them is a template."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

WIDTH, HEIGHT = 640, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 28, 44
# Values that grow by this much in all are placed by their logarithms.
LOGARITHMIC = 6
_MOST_TICKS = 9


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Dot:
    """A measured value: its place, its interval, and what is told of it."""

    x: float
    y: float
    low: float
    high: float
    tip: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """Dots of one kind; joined by a line where `joined`."""

    label: str
    dots: tuple[Dot, ...]
    joined: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """What nothing exceeds: a line through places."""

    label: str
    places: tuple[tuple[float, float], ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A dot in pixels, with its interval."""

    x: float
    y: float
    low: float
    high: float
    tip: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """A series in pixels: `path` is the `points` of a polyline, empty for dots alone; `color` counts from 0."""

    label: str
    color: int
    path: str
    marks: tuple[Mark, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A plot in pixels.

    Attributes:
        title, x_label, y_label: in words.
        x_ticks, y_ticks: (pixel, text).
        series: what was measured. limits: (path, label, pixels of its label) of each limit.
    """

    title: str
    x_label: str
    y_label: str
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    series: tuple[Drawn, ...]
    limits: tuple[tuple[str, str, tuple[float, float]], ...] = ()
    width: int = WIDTH
    height: int = HEIGHT
    box: tuple[int, int, int, int] = (LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """From values to pixels, `low` at `start` and `high` at `end`; by logarithms where `log`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value, held within the box."""
        low, high, at = (math.log(v) for v in (self.low, self.high, max(value, self.low))) if self.log else (self.low, self.high, value)
        part = (at - low) / (high - low) if high > low else 0.5
        return round(self.start + (self.end - self.start) * min(1.0, max(0.0, part)), 1)

    def ticks(self) -> list[float]:
        """Round values within it."""
        return _decades(self.low, self.high) if self.log else _steps(self.low, self.high)


def draw(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    x_values: Sequence[tuple[float, str]] = (),
    x_log: bool,
    y_log: bool,
    limits: Sequence[Limit] = (),
) -> Chart:
    """Place lines and dots.

    Args:
        series: what to show; at least one dot in all.
        title: in words.
        x_label: likewise.
        y_label: likewise.
        x_values: (value, text) of the ticks below; round numbers for none.
        x_log: by logarithms.
        y_log: likewise; else y begins at 0.
        limits: what nothing exceeds.
    """
    dots = [dot for one in series for dot in one.dots]
    xs = [dot.x for dot in dots] + [x for limit in limits for x, _ in limit.places]
    ys = [value for dot in dots for value in (dot.low, dot.high)] + [y for limit in limits for _, y in limit.places]
    across = Scale(low=min(xs), high=max(xs), start=LEFT + 14, end=WIDTH - RIGHT - 14, log=x_log)
    up = Scale(low=min(ys) / 1.15 if y_log else 0.0, high=max(ys) * (1.15 if y_log else 1.06), start=HEIGHT - BOTTOM, end=TOP, log=y_log)
    below = _thinned(list(x_values)) if x_values else [(value, number_text(value)) for value in across.ticks()]
    return Chart(
        title=title,
        x_label=x_label,
        y_label=y_label,
        x_ticks=tuple((across(value), text) for value, text in below),
        y_ticks=tuple((up(value), number_text(value)) for value in up.ticks()),
        series=tuple(_drawn(one, color, across, up) for color, one in enumerate(series)),
        limits=tuple(
            (_path(limit.places, across, up), limit.label, (across(limit.places[-1][0]), up(limit.places[-1][1]))) for limit in limits
        ),
    )


def _drawn(one: Series, color: int, across: Scale, up: Scale) -> Drawn:
    marks = tuple(Mark(x=across(dot.x), y=up(dot.y), low=up(dot.low), high=up(dot.high), tip=dot.tip) for dot in one.dots)
    path = _path([(dot.x, dot.y) for dot in one.dots], across, up) if one.joined and len(one.dots) > 1 else ""
    return Drawn(label=one.label, color=color, path=path, marks=marks)


def _path(places: Sequence[tuple[float, float]], across: Scale, up: Scale) -> str:
    return " ".join(f"{across(x):g},{up(y):g}" for x, y in places)


def is_wide(values: Sequence[float]) -> bool:
    """Whether values are placed by their logarithms: they are positive, and the last is many times the first."""
    return min(values) > 0 and max(values) >= LOGARITHMIC * min(values)


def _steps(low: float, high: float) -> list[float]:
    step = 10.0 ** math.floor(math.log10((high - low) / 4)) if high > low else 1.0
    step *= next((by for by in (1, 2, 5) if (high - low) / (step * by) <= _MOST_TICKS - 3), 10)
    first = math.ceil(low / step - 1e-9)
    return [round(step * n, 12) for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _decades(low: float, high: float) -> list[float]:
    span = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 5), (1, 3), (1,)):
        found = [digit * 10.0**power for power in span for digit in digits if low <= digit * 10.0**power <= high]
        if len(found) <= _MOST_TICKS:
            return found or [low, high]
    every = -(-len(found) // _MOST_TICKS)
    return found[::every]


def _thinned(ticks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """No more ticks than have room; the first stays."""
    return ticks[:: -(-len(ticks) // _MOST_TICKS)]


def number_text(value: float) -> str:
    """`0.5`, `20`, `4e+06`."""
    return f"{value:.12g}" if 1e-3 <= abs(value) < 1e5 or not value else f"{value:.3g}"
