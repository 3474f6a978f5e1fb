"""Intervals, outliers and ratios against known distributions."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest

from tilec.bench.statistics import median_interval, ratio_of, series_interval, summarize


@pytest.mark.parametrize(("n", "rank"), [(6, 0), (10, 1), (15, 3), (20, 5), (50, 17), (100, 39)])
def test_the_interval_takes_the_ranks_of_the_binomial_table(n: int, rank: int) -> None:
    """As in tables of nonparametric intervals: 2 and 9 of 10, 6 and 15 of 20, 40 and 61 of 100."""
    found = median_interval([float(i) for i in range(n)])
    assert (found.low, found.high) == (rank, n - 1 - rank)
    tail = sum(math.comb(n, k) for k in range(rank + 1)) / 2**n
    assert found.coverage == pytest.approx(1 - 2 * tail)
    assert found.coverage >= 0.95


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


def test_outliers_are_listed_and_move_nothing() -> None:
    found = summarize([1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 5.0, 1.0])
    assert (found.outliers, found.median) == ((5.0,), 1.0)
    assert found.interval.high < 1.1
    assert summarize([1.0] * 9 + [1.001]).outliers == ()


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


def test_samples_without_correlation_keep_the_plain_interval() -> None:
    for samples in ([1.0, 1.1] * 20, [1.0] * 40):
        assert series_interval(samples) == median_interval(samples)
