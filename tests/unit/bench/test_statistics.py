"""Statistics against distributions that are known."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest

from tilec.bench.statistics import Verdict, compare_pairs, median_interval, summarize


def test_the_median_of_an_even_number_lies_between_the_two_in_the_middle() -> None:
    assert median([4.0, 1.0, 3.0, 2.0]) == 2.5
    assert median([9.0, 1.0, 5.0]) == 5.0


@pytest.mark.parametrize(("n", "rank"), [(6, 0), (10, 1), (15, 3), (20, 5), (50, 17), (100, 39)])
def test_the_interval_takes_the_ranks_of_the_binomial_table(n: int, rank: int) -> None:
    """Ranks as tables of nonparametric intervals have them: 2 and 9 of 10, 6 and 15 of 20, 18 and
    33 of 50, 40 and 61 of 100.
    """
    found = median_interval([float(i) for i in range(n)])
    assert (found.low, found.high) == (rank, n - 1 - rank)
    assert found.coverage >= 0.95
    assert found.coverage == pytest.approx(
        1 - 2 * sum(math.comb(n, k) for k in range(rank + 1)) / 2**n
    )


def test_too_few_samples_say_how_sure_they_are() -> None:
    found = median_interval([3.0, 1.0, 2.0])
    assert (found.low, found.high) == (1.0, 3.0)
    assert found.coverage == 0.75


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
    hits = sum(
        (found := median_interval([draw(rng) for _ in range(25)])).low <= truth <= found.high
        for _ in range(1000)
    )
    assert 0.94 <= hits / 1000 <= 0.99  # 95.7 % by the binomial, with the noise of a thousand tries


def test_a_far_sample_is_named_and_moves_nothing() -> None:
    samples = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 5.0, 1.0]
    found = summarize(samples)
    assert [(one.place, one.value) for one in found.outliers] == [(7, 5.0)]
    assert found.median == 1.0
    assert found.interval.high < 1.1


def test_samples_that_agree_have_no_outliers_by_rounding() -> None:
    assert summarize([1.0] * 9 + [1.001]).outliers == ()


def test_no_samples_and_no_numbers_are_refused() -> None:
    for samples in ([], [1.0, math.nan], [math.inf]):
        with pytest.raises(ValueError, match="samples"):
            summarize(samples)


def test_pairs_see_through_drift() -> None:
    """Both become twice as slow meanwhile; the second is 3 % slower in every pair, which medians of
    each alone would not show.
    """
    rng = random.Random(3)
    drift = [1 + i / 40 for i in range(40)]
    first = [d * rng.uniform(0.995, 1.005) for d in drift]
    second = [d * 1.03 * rng.uniform(0.995, 1.005) for d in drift]
    found = compare_pairs(first, second)
    assert found.verdict is Verdict.FIRST
    assert found.ratio == pytest.approx(1 / 1.03, rel=0.005)
    assert compare_pairs(second, first).verdict is Verdict.SECOND
    low, high = median_interval(first).low, median_interval(second).high
    assert low < median(second) < high


def test_equal_pairs_are_a_tie_and_so_are_too_few() -> None:
    rng = random.Random(5)
    one, other = ([rng.uniform(0.9, 1.1) for _ in range(30)] for _ in range(2))
    assert compare_pairs(one, other).verdict is Verdict.TIE
    assert compare_pairs([1.0, 1.0], [2.0, 2.0]).verdict is Verdict.TIE


def test_pairs_have_to_be_pairs() -> None:
    with pytest.raises(ValueError, match="pairs"):
        compare_pairs([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="above zero"):
        compare_pairs([1.0], [0.0])
