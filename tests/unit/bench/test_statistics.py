"""Intervals, outliers and ratios against known distributions."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest

from tilec.bench.statistics import median_interval, ratio_of, summarize


def test_too_few_samples_say_how_sure_they_are() -> None:
    found = median_interval([3.0, 1.0, 2.0])
    assert (found.low, found.high, found.coverage) == (1.0, 3.0, 0.75)


@pytest.mark.parametrize(
    "draw",
    [
        lambda r: r.gauss(5, 1),
        lambda r: r.expovariate(1.0),
        lambda r: r.choice((1.0, 1.0, 9.0)) + r.random(),
    ],
)
def test_the_interval_holds_the_median_as_often_as_it_says(draw) -> None:
    rng = random.Random(7)
    truth = median([draw(rng) for _ in range(20001)])
    intervals = [median_interval([draw(rng) for _ in range(25)]) for _ in range(1000)]
    hits = sum(found.low <= truth <= found.high for found in intervals)
    assert 0.94 <= hits / 1000 <= 0.99  # 95.7 % by the binomial, with the noise of a thousand tries


@pytest.mark.parametrize("samples", [[], [1.0, math.nan], [math.inf]])
def test_a_summary_needs_finite_samples(samples: list[float]) -> None:
    with pytest.raises(ValueError, match="samples"):
        summarize(samples)


def test_a_ratio_of_pairs_ignores_drift() -> None:
    """Both become twice as slow; the second is 3 % slower in every pair."""
    rng = random.Random(3)
    drift = [1 + i / 40 for i in range(40)]
    first = [d * rng.uniform(0.995, 1.005) for d in drift]
    second = [d * 1.03 * rng.uniform(0.995, 1.005) for d in drift]
    found = ratio_of(first, second)
    assert found.certain
    assert found.ratio == pytest.approx(1 / 1.03, rel=0.005)
    assert ratio_of(second, first).ratio > 1
    assert median_interval(first).low < median(second) < median_interval(second).high


def test_equal_and_too_few_pairs_are_uncertain() -> None:
    rng = random.Random(5)
    one, other = ([rng.uniform(0.9, 1.1) for _ in range(30)] for _ in range(2))
    assert not ratio_of(one, other).certain
    assert not ratio_of([1.0, 1.0], [2.0, 2.0]).certain
    with pytest.raises(ValueError, match="argument"):
        ratio_of([1.0], [1.0, 2.0])
