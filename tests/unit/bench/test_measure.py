"""Measuring until the median is known, and the statistics of samples."""

from __future__ import annotations

import dataclasses
import random
from statistics import median
from unittest.mock import MagicMock

import pytest

from tilec.bench.clocks import Clocks
from tilec.bench.measure import (
    MeasureOptions,
    measure,
    measure_together,
)
from tilec.bench.statistics import median_interval, ratio_of


@dataclasses.dataclass
class Planned:
    """Launches that take what a list says, one entry a call; the last one stays."""

    times: list[float]
    now: list[float] = dataclasses.field(default_factory=lambda: [0.0])
    calls: list[int] = dataclasses.field(default_factory=list)

    def seconds(self, launches: int) -> float:
        each = self.times[min(len(self.calls), len(self.times) - 1)]
        self.calls.append(launches)
        self.now[0] += each * launches
        return each * launches

    def clocks(self) -> None: ...

    def clock(self) -> float:
        return self.now[0]


def test_clocks_that_rise_in_steps_are_not_taken_for_steady_on_the_first() -> None:
    rising = Planned([2e-3] * 8 + [1e-3])
    found = measure(rising, MeasureOptions(sample=1e-4, least_warm_up=0.05), clock=rising.clock)
    assert found.steady
    assert set(found.samples) == {1e-3}
    rising = Planned([2e-3] * 8 + [1e-3])
    assert 2e-3 in measure(rising, MeasureOptions(sample=1e-4), clock=rising.clock).samples


def test_it_stops_when_the_median_is_known_or_the_time_is_up() -> None:
    sure = Planned([1e-3])
    assert len(measure(sure, MeasureOptions(sample=1e-4, least=7), clock=sure.clock).samples) == 7
    wild = Planned([1e-3 * (1 + (i * 7 % 10)) for i in range(5000)])
    options = MeasureOptions(sample=1e-4, warm_up=0.0, least=5, most=30, seconds=1e9)
    assert len(measure(wild, options, clock=wild.clock).samples) == 30
    slow = Planned([0.5 * (1 + (i * 7 % 10)) for i in range(5000)])
    options = MeasureOptions(warm_up=0.0, least=5, most=30, seconds=1.0)
    assert len(measure(slow, options, clock=slow.clock).samples) == 5


def test_a_pair_is_measured_in_turn_and_each_goes_first_as_often() -> None:
    order: list[str] = []

    class Noted(Planned):
        def seconds(self, launches: int) -> float:
            order.append("a" if self is first else "b")
            return super().seconds(launches)

    first, second = Noted([1e-3]), Noted([1.02e-3])
    second.now = first.now
    options = MeasureOptions(sample=1e-4, warm_up=0.0, least=8, seconds=0.0)
    a, b = measure_together((first, second), options, clock=first.clock)
    assert len(a.samples) == len(b.samples) == 8
    assert "".join(order).endswith("abbaabbaabbaabba")
    found = ratio_of(a.samples, b.samples)
    assert found.certain
    assert found.ratio < 1


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


@pytest.mark.parametrize(
    ("bits", "held"),
    [(0x0, ()), (0x1, ()), (0x84, ("power",)), (0x64, ("power", "heat"))],
)
def test_reasons_that_hold_clocks_back_are_named(bits: int, held: tuple[str, ...]) -> None:
    nvml = MagicMock()
    nvml.device_get_current_clocks_event_reasons.return_value = bits
    reading = Clocks("GPU-1", nvml).read()
    assert reading
    assert reading.held_back == held
