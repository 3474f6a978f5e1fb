"""Medians with intervals that assume no distribution, outliers, and ratios of paired samples."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from statistics import median

import numpy as np

CONFIDENCE = 0.95
# An outlier is more than this many median absolute deviations from the median (scaled as in a
# normal distribution), and more than a part of the median: samples that agree to the last digit
# would make an outlier of everything else.
_DEVIATIONS = 5.0
_SCALE = 1.4826
_LEAST_PART = 0.05
# Bound on the correlation of neighbours: beyond it the samples say little more than one does.
_MOST_ALIKE = 0.95
_NORMAL = 1.96


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A confidence interval of a median.

    Attributes:
        low, high: bounds.
        coverage: probability that it holds the median; below 0.95 for too few samples.
    """

    low: float
    high: float
    coverage: float

    def __contains__(self, value: float) -> bool:
        """Return whether a value is within the bounds."""
        return self.low <= value <= self.high


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The median of samples with its interval; outliers are listed, and not left out."""

    median: float
    interval: Interval
    outliers: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Ratio:
    """The median of pairwise ratios, first over second, with its interval."""

    ratio: float
    interval: Interval

    @property
    def certain(self) -> bool:
        """Whether the interval excludes 1."""
        interval = self.interval
        return interval.coverage >= CONFIDENCE and 1 not in interval


def summarize(samples: Sequence[float]) -> Summary:
    """Return median, interval and outliers of a time series."""
    middle = median(samples)
    spread = _SCALE * median([abs(sample - middle) for sample in samples])
    limit = max(_DEVIATIONS * spread, _LEAST_PART * abs(middle))
    return Summary(
        median=middle,
        interval=series_interval(samples),
        outliers=tuple(sample for sample in samples if abs(sample - middle) > limit),
    )


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Return a confidence interval of the median by order statistics.

    The number of samples below the median is binomial with probability one half. The narrowest pair
    of order statistics with enough coverage is taken; with fewer than 6 samples, all of them.
    """
    ordered = sorted(samples)
    n = len(ordered)
    tail, rank = 0.5**n, 0  # probability that at most `place` samples lie below
    while rank + 1 < n / 2:
        grown = tail + math.comb(n, rank + 1) * 0.5**n
        if 2 * grown > 1 - confidence:
            break
        tail, rank = grown, rank + 1
    return Interval(low=ordered[rank], high=ordered[n - 1 - rank], coverage=1 - 2 * tail)


def series_interval(samples: Sequence[float]) -> Interval:
    """Return a confidence interval of the median of a time series.

    Clocks, heat and other users of a machine change slowly: n samples with correlation r of
    neighbours say as much as n * (1 - r) / (1 + r) independent ones, so the interval is wider.
    """
    plain, alike = median_interval(samples), _correlation(samples)
    if alike <= 0:
        return plain
    ordered, n = sorted(samples), len(samples)
    reach = _NORMAL / 2 * math.sqrt(n * (1 + alike) / (1 - alike))
    low, high = math.floor((n - 1) / 2 - reach), math.ceil((n - 1) / 2 + reach)
    return Interval(
        low=min(plain.low, ordered[max(low, 0)]),
        high=max(plain.high, ordered[min(high, n - 1)]),
        coverage=min(plain.coverage, CONFIDENCE) if low >= 0 else plain.coverage,
    )


def ratio_of(first: Sequence[float], second: Sequence[float]) -> Ratio:
    """Return the ratio of samples that were taken in turn; drift cancels in each pair.

    Raises:
        ValueError: the lengths differ.
    """
    each = [one / other for one, other in zip(first, second, strict=True)]
    return Ratio(ratio=median(each), interval=series_interval(each))


def _correlation(samples: Sequence[float]) -> float:
    """Return the correlation of neighbours' ranks; ranks, since an outlier would hide it."""
    n = len(samples)
    if n < 8:  # too few to tell
        return 0.0
    _, inverse, counts = np.unique(np.asarray(samples), return_inverse=True, return_counts=True)
    shared = np.cumsum(counts) - (counts + 1) / 2  # equal samples share the mean of their ranks
    off = shared[inverse] - (n - 1) / 2
    spread = float(off @ off)
    if not spread:
        return 0.0
    correlation = float(off[:-1] @ off[1:]) / spread
    # The estimate from n samples is too low by about (1 + 3 r) / n.
    return min(_MOST_ALIKE, correlation + (1 + 3 * max(correlation, 0.0)) / n)
