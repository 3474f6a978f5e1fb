"""The gate's promise, by simulation: two runs of the same code stay quiet, a slowdown is caught,
whatever the noise looks like.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from tilec.bench.gate import Standing, change_of, settled
from tilec.bench.measure import MeasureOptions, measure_together
from tilec.bench.statistics import Interval, median_interval, series_interval

LIMIT, COMPARISONS = 0.05, 200
OPTIONS = MeasureOptions(
    sample=1e-9, warm_up=0.0, least=30, most=300, seconds=0.6, precise=0.01
)  # at 2 ms a sample
Noise = Callable[[random.Random], Iterator[float]]


class Noisy:
    """Launches that take as long as a model of noise says, as long as they last."""

    def __init__(self, noise: Iterator[float], now: float = 1.0) -> None:
        self._noise, self._now, self._time = noise, now, 0.0

    def seconds(self, launches: int) -> float:
        self._time += 2e-3
        return self._now * next(self._noise) * launches

    def clocks(self) -> None: ...

    def samples(self) -> tuple[float, ...]:
        (found,) = measure_together([self], OPTIONS, clock=lambda: self._time)
        return found.samples


def independent(rng: random.Random) -> Iterator[float]:
    """Samples that vary by 2 %, and nothing else."""
    while True:
        yield math.exp(rng.gauss(0, 0.02))


def drifting(rng: random.Random) -> Iterator[float]:
    """A machine that warms up and cools down: each sample is much like the last."""
    value = rng.gauss(0, 0.015)
    while True:
        value = 0.8 * value + rng.gauss(0, 0.015 * math.sqrt(1 - 0.8**2))
        yield math.exp(value + rng.gauss(0, 0.003))


def two_clocks(rng: random.Random) -> Iterator[float]:
    """Clocks that jump between two states, 3 % apart, every ten samples or so."""
    slow = rng.random() < 0.5
    while True:
        slow ^= rng.random() < 0.1
        yield (1.03 if slow else 1.0) * math.exp(rng.gauss(0, 0.004))


def disturbed(rng: random.Random) -> Iterator[float]:
    """One sample in eight meets somebody else's work and takes up to twice as long."""
    while True:
        yield math.exp(rng.gauss(0, 0.005)) * (1 + (rng.random() if rng.random() < 0.125 else 0))


def runs_apart(rng: random.Random) -> Iterator[float]:
    """Each run is off as a whole, by where its memory lies and what the clocks were: no run can see
    that by itself.
    """
    off = rng.gauss(0, 0.008)
    while True:
        yield math.exp(off + rng.gauss(0, 0.004))


def coarse(rng: random.Random) -> Iterator[float]:
    """A timer whose ticks are 2 % of what it times."""
    while True:
        yield round(math.exp(rng.gauss(0, 0.01)) / 0.02) * 0.02


MODELS = (
    drifting,
    *(
        pytest.param(model, marks=pytest.mark.long)
        for model in (independent, two_clocks, disturbed, runs_apart, coarse)
    ),
)


def alarms(noise: Noise, slowdown: float, *, seed: int) -> int:
    """Of so many comparisons of a saved run with one that is slower by a factor, how many end as a
    failure.
    """
    rng = random.Random(seed)

    def now() -> tuple[float, ...]:
        return Noisy(noise(rng), slowdown).samples()

    return sum(
        settled(Noisy(noise(rng)).samples(), now(), now, LIMIT).standing is Standing.SLOWER
        for _ in range(COMPARISONS)
    )


@pytest.mark.parametrize("noise", MODELS, ids=lambda noise: noise.__name__)
def test_the_same_code_raises_at_most_two_alarms_in_two_hundred(noise: Noise) -> None:
    assert alarms(noise, 1.0, seed=1) <= 2


@pytest.mark.parametrize("noise", MODELS, ids=lambda noise: noise.__name__)
def test_a_slowdown_of_eight_percent_is_caught(noise: Noise) -> None:
    assert alarms(noise, 1.08, seed=2) >= 0.95 * COMPARISONS


def test_an_interval_of_samples_that_hang_together_is_right_as_often_as_it_says() -> None:
    rng = random.Random(5)

    def held(interval: Callable[[Sequence[float]], Interval]) -> int:
        found = [interval(list(itertools.islice(drifting(rng), 60))) for _ in range(300)]
        return sum(one.low <= 1.0 <= one.high for one in found)

    assert held(median_interval) < 0.75 * 300
    assert held(series_interval) >= 0.90 * 300


STEADY = [1.0 + 0.001 * (i % 3) for i in range(30)]


def test_wide_intervals_and_few_samples_are_unclear() -> None:
    wide = [1.0, 1.2, 1.4] * 10
    assert change_of(STEADY, [1.1, 0.95, 1.4] * 10).standing is Standing.UNCLEAR
    assert change_of(wide, [1.1 * sample for sample in wide]).standing is Standing.UNCLEAR
    assert change_of([1.0] * 5, [1.2] * 5).standing is Standing.UNCLEAR
