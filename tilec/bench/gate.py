"""Whether a measurement is slower than a saved one, so that two runs of the same code hardly ever
differ: the statistic of the gate.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from statistics import median

from tilec.bench.statistics import CONFIDENCE, Interval, series_interval

# Part by which a median has to be another one before that is worth a word.
LIMIT = 0.05


class Standing(enum.Enum):
    """What a measurement is, held against a saved one."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    UNCLEAR = "unclear"  # further off than the limit, and the intervals are too wide to tell


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A measurement over a saved one.

    Attributes:
        ratio: of the medians; above 1 for what is slower now.
        interval: where that lies, from the intervals of both.
        standing: what it says.
        repeated: it looked slower at first, and was measured again: this is of the second time.
    """

    ratio: float
    interval: Interval
    standing: Standing
    repeated: bool = False


def change_of(old: Sequence[float], new: Sequence[float], limit: float = LIMIT) -> Change:
    """A measurement over a saved one; slower or faster only by more than `limit`, where each median
    is outside of the other's interval.
    """
    before, now = series_interval(old), series_interval(new)
    old_median, new_median = median(old), median(new)
    ratio = new_median / old_median
    interval = Interval(
        low=now.low / before.high,
        high=now.high / before.low,
        coverage=min(before.coverage, now.coverage),
    )
    slower, faster = ratio > 1 + limit, ratio < 1 / (1 + limit)
    if not (slower or faster):
        standing = Standing.SAME
    elif (
        interval.coverage < CONFIDENCE
        or before.low <= new_median <= before.high
        or now.low <= old_median <= now.high
    ):
        standing = Standing.UNCLEAR
    else:
        standing = Standing.SLOWER if slower else Standing.FASTER
    return Change(ratio=ratio, interval=interval, standing=standing)


def settled(
    old: Sequence[float],
    new: Sequence[float],
    again: Callable[[], Sequence[float]],
    limit: float = LIMIT,
) -> Change:
    """The same, where what looks slower or unclear is measured again from the start: what a machine
    does by the way seldom does it twice.

    Args:
        old: the saved samples.
        new: those of now.
        again: measures once more, with new memory.
        limit: part by which a median has to be off.
    """
    first = change_of(old, new, limit)
    if first.standing not in (Standing.SLOWER, Standing.UNCLEAR) or first.ratio < 1:
        return first
    return dataclasses.replace(change_of(old, again(), limit), repeated=True)
