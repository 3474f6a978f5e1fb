"""Decides whether a measurement is slower than a saved one, with few false alarms."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence

from tilec.bench.statistics import CONFIDENCE, Interval, summarize

# The change of a median that counts, as a part.
LIMIT = 0.05


class Standing(enum.Enum):
    """The outcome of a comparison with a saved measurement."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    UNCLEAR = "unclear"  # beyond the limit, but the intervals are too wide to tell


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A measurement over a saved one.

    Attributes:
        ratio: of the medians; above 1 for slower.
        interval: of the ratio, from the intervals of both.
        standing: the outcome.
        repeated: the first measurement looked slower; this is the second one.
    """

    ratio: float
    interval: Interval
    standing: Standing
    repeated: bool = False


def change_of(old: Sequence[float], new: Sequence[float], limit: float = LIMIT) -> Change:
    """Compare two measurements.

    Slower or faster means by more than `limit`, with each median outside of the other's interval.
    """
    before, now = summarize(old), summarize(new)
    ratio = now.median / before.median
    interval = Interval(
        low=now.interval.low / before.interval.high,
        high=now.interval.high / before.interval.low,
        coverage=min(before.interval.coverage, now.interval.coverage),
    )
    overlap = now.median in before.interval or before.median in now.interval
    if 1 / (1 + limit) <= ratio <= 1 + limit:
        standing = Standing.SAME
    elif overlap or interval.coverage < CONFIDENCE:
        standing = Standing.UNCLEAR
    else:
        standing = Standing.SLOWER if ratio > 1 else Standing.FASTER
    return Change(ratio=ratio, interval=interval, standing=standing)


def settled(
    old: Sequence[float],
    new: Sequence[float],
    again: Callable[[], Sequence[float]],
    limit: float = LIMIT,
) -> Change:
    """Compare as `change_of`, and measure again what looks slower or unclear.

    A disturbance of the machine seldom happens twice.

    Args:
        old: saved samples.
        new: samples of now.
        again: measures once more, with new memory.
        limit: the change that counts, as a part.
    """
    first = change_of(old, new, limit)
    if first.standing not in (Standing.SLOWER, Standing.UNCLEAR) or first.ratio < 1:
        return first
    return dataclasses.replace(change_of(old, again(), limit), repeated=True)
