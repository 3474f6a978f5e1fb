"""What samples say: the median with a 95 % interval that assumes no distribution, outliers by name,
and which of two is faster.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence
from statistics import median

import numpy as np

CONFIDENCE = 0.95
# A sample is an outlier where it lies further from the median than so many median deviations,
# scaled as in a normal distribution, and than a part of the median: samples that agree to the last
# digit would make one of everything else.
_DEVIATIONS = 5.0
_SCALE = 1.4826
_LEAST_PART = 0.05
# Samples that hang together this much say next to nothing more than one does.
_MOST_ALIKE = 0.95
_NORMAL = 1.96


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """Where a median lies.

    Attributes:
        low, high: its bounds.
        coverage: how often such an interval holds the median; below 0.95 where there are too few
            samples for that.
    """

    low: float
    high: float
    coverage: float


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Outlier:
    """A sample that is far from all others: its place among them, and what it is."""

    place: int
    value: float


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What samples come to; outliers are named, and left in."""

    count: int
    least: float
    median: float
    interval: Interval
    outliers: tuple[Outlier, ...] = ()


class Verdict(enum.Enum):
    """What a paired comparison says."""

    FIRST = "the first is faster"
    SECOND = "the second is faster"
    TIE = "no difference was seen"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Pairs of samples that were taken side by side: the median of first over second, its interval,
    and what that says.
    """

    ratio: float
    interval: Interval
    verdict: Verdict


def summarize(samples: Sequence[float]) -> Summary:
    """What samples come to.

    Raises:
        ValueError: there are none, or one is no number.
    """
    if not samples or not all(math.isfinite(sample) for sample in samples):
        raise ValueError("a summary needs samples, and all of them finite")
    middle = median(samples)
    return Summary(
        count=len(samples),
        least=min(samples),
        median=middle,
        interval=median_interval(samples),
        outliers=_outliers(samples, middle),
    )


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """An interval that holds the median of whatever the samples come from, by order statistics.

    How many of n samples lie below the median is binomial with one half, so that the k-th from
    below and from above hold it between them as often as that distribution says. The narrowest pair
    that is right often enough is taken; of fewer than 6 samples, all.
    """
    ordered = sorted(samples)
    n = len(ordered)
    tail, place = 0.5**n, 0  # probability that fewer than place + 1 samples lie below
    while (
        place + 1 < n / 2
        and 2 * (grown := tail + math.comb(n, place + 1) * 0.5**n) <= 1 - confidence
    ):
        tail, place = grown, place + 1
    return Interval(low=ordered[place], high=ordered[n - 1 - place], coverage=1 - 2 * tail)


def series_interval(samples: Sequence[float]) -> Interval:
    """The interval of the median of samples in the order in which they were taken, wider where
    neighbours are alike.

    Clocks, heat and other users of a machine change slowly: n samples that hang together by r say
    as much as n * (1 - r) / (1 + r) that do not. By ranks, so that one sample far off does not hide
    it.
    """
    alike = _alike(samples)
    if alike <= 0:
        return median_interval(samples)
    ordered, n = sorted(samples), len(samples)
    reach = _NORMAL / 2 * math.sqrt(n * (1 + alike) / (1 - alike))
    low, high = math.floor((n - 1) / 2 - reach), math.ceil((n - 1) / 2 + reach)
    plain = median_interval(samples)
    return Interval(
        low=min(plain.low, ordered[max(low, 0)]),
        high=max(plain.high, ordered[min(high, n - 1)]),
        coverage=min(plain.coverage, CONFIDENCE if low >= 0 else plain.coverage),
    )


def compare_pairs(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Which of two is faster, by samples that were taken in turn: drift that both see cancels in
    each pair.

    Raises:
        ValueError: there are no pairs, or a sample is not above zero.
    """
    if len(first) != len(second) or not first or min(*first, *second) <= 0:
        raise ValueError("pairs are as many samples of the one as of the other, all above zero")
    ratios = [one / other for one, other in zip(first, second, strict=True)]
    interval = median_interval(ratios)
    verdict = (
        Verdict.FIRST if interval.high < 1 else Verdict.SECOND if interval.low > 1 else Verdict.TIE
    )
    if interval.coverage < CONFIDENCE:
        verdict = Verdict.TIE
    return Comparison(ratio=median(ratios), interval=interval, verdict=verdict)


def _outliers(samples: Sequence[float], middle: float) -> tuple[Outlier, ...]:
    spread = _SCALE * median([abs(sample - middle) for sample in samples])
    limit = max(_DEVIATIONS * spread, _LEAST_PART * abs(middle))
    return tuple(
        Outlier(place=i, value=sample)
        for i, sample in enumerate(samples)
        if abs(sample - middle) > limit
    )


def _alike(samples: Sequence[float]) -> float:
    """How far each sample's rank tells the next one's: 0 for not at all."""
    n = len(samples)
    if n < 8:  # too few to tell
        return 0.0
    _, place, counts = np.unique(np.asarray(samples), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts + 1) / 2)[
        place
    ]  # equal samples share the mean of their ranks
    off = ranks - (n - 1) / 2
    spread = float(off @ off)
    if not spread:
        return 0.0
    # What is found in n samples is too low by about (1 + 3 r) / n.
    found = float(off[:-1] @ off[1:]) / spread
    return min(_MOST_ALIKE, found + (1 + 3 * max(found, 0.0)) / n)
