"""Measures anything that can be launched: warms up until it is steady, takes samples until the
median is known, watches the clocks.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import Protocol

from tilec.bench.statistics import (
    CONFIDENCE,
    Comparison,
    Summary,
    compare_pairs,
    series_interval,
    summarize,
)

Clock = Callable[[], float]

# Launches of one sample: enough that what is around them does not count, and no more than a graph
# may well have.
MOST_LAUNCHES = 512
# Samples in a row that agree, and how well, before a device counts as warm.
_STEADY, _AGREE = 4, 0.02
# A clock that falls by this part of the highest that was seen has been held back.
_SLOWED = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ClockReading:
    """Clocks of a device in MHz at one moment, and what holds them back (`power`, `heat`); empty
    for nothing.
    """

    sm: int
    memory: int
    held_back: tuple[str, ...] = ()


class Subject(Protocol):
    """What is measured: launches on a device."""

    def seconds(self, launches: int) -> float:
        """Seconds that the device is busy with so many launches in a row; what it costs to launch
        them is outside.
        """

    def clocks(self) -> ClockReading | None:
        """The clocks now; None where they cannot be read."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class MeasureOptions:
    """How to measure.

    Attributes:
        sample: seconds that one sample is to last: shorter launches are put together.
        warm_up: most seconds until the device counts as warm.
        least_warm_up: least seconds; clocks that rise in steps agree for a while on each of them.
        least, most: samples.
        seconds: stop after these, once there are `least` samples.
        precise: stop when the interval of the median is narrower than this part of it.
    """

    sample: float = 0.002
    warm_up: float = 0.5
    least_warm_up: float = 0.0
    least: int = 15
    most: int = 200
    seconds: float = 1.0
    precise: float = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """What was measured.

    Attributes:
        samples: seconds of one launch, in the order in which they were taken.
        launches: of each sample.
        steady: the device was warm before the first of them.
        sm, memory: least and greatest clock in MHz that was seen; None where they cannot be read.
        held_back: what held the clocks back meanwhile; `clock` where only the clock itself shows
            it.
    """

    samples: tuple[float, ...]
    launches: int
    steady: bool
    sm: tuple[int, int] | None = None
    memory: tuple[int, int] | None = None
    held_back: tuple[str, ...] = ()

    @property
    def summary(self) -> Summary:
        """Median, interval, outliers."""
        return summarize(self.samples)


def measure(
    subject: Subject, options: MeasureOptions = MeasureOptions(), *, clock: Clock
) -> Measurement:
    """Measure launches.

    Args:
        subject: what to launch.
        options: how.
        clock: seconds of the host, for the limits alone.
    """
    return measure_together((subject,), options, clock=clock)[0]


def measure_pair(
    first: Subject, second: Subject, options: MeasureOptions = MeasureOptions(), *, clock: Clock
) -> tuple[Measurement, Measurement, Comparison]:
    """Measure two side by side: a sample of the one, a sample of the other, and which goes first
    changes every time.
    """

    # An even number of pairs, so that each was first as often as the other.
    def ends(turns: int, elapsed: float, _samples: Sequence[Sequence[float]]) -> bool:
        return turns % 2 == 0 and turns >= options.least and elapsed >= options.seconds

    one, other = _in_turns((first, second), options, clock, ends)
    return one, other, compare_pairs(one.samples, other.samples)


def measure_together(
    subjects: Sequence[Subject], options: MeasureOptions = MeasureOptions(), *, clock: Clock
) -> tuple[Measurement, ...]:
    """Measure several side by side, until the medians of all are known: samples of one turn see the
    same machine.
    """
    looks = _Looks(options.least)

    def ends(turns: int, elapsed: float, samples: Sequence[Sequence[float]]) -> bool:
        if turns % 2 and len(samples) > 1:
            return False
        if turns >= options.least and elapsed >= options.seconds * len(samples):
            return True
        return looks.due(turns) and all(_is_known(series, options.precise) for series in samples)

    return _in_turns(subjects, options, clock, ends)


class _Looks:
    """When it is asked whether a median is known: at half as many samples again, not after each.
    Who asks all the time stops by luck.
    """

    def __init__(self, least: int) -> None:
        self._due = least

    def due(self, samples: int) -> bool:
        """Whether to ask now."""
        if samples < self._due:
            return False
        self._due = max(self._due + 2, self._due * 3 // 2)
        return True


def _is_known(samples: Sequence[float], precise: float) -> bool:
    """Whether the interval of a series' median is no wider than this part of it."""
    found = series_interval(samples)
    return found.coverage >= CONFIDENCE and found.high - found.low <= precise * median(samples)


def launches_of(subject: Subject, sample: float) -> int:
    """How many launches make a sample of so many seconds; the first launch, which may load code,
    does not count.
    """
    subject.seconds(1)
    one = max(subject.seconds(1), 1e-9)
    return max(1, min(MOST_LAUNCHES, math.ceil(sample / one)))


def _in_turns(
    subjects: Sequence[Subject],
    options: MeasureOptions,
    clock: Clock,
    ends: Callable[[int, float, Sequence[Sequence[float]]], bool],
) -> tuple[Measurement, ...]:
    """Samples of each subject in turn, there and back; `ends` is asked behind each, with their
    number and the seconds so far.
    """
    launches = [launches_of(subject, options.sample) for subject in subjects]
    least, most = (seconds / len(subjects) for seconds in (options.least_warm_up, options.warm_up))
    steady = [
        _warm_up(subject, n, least, most, clock)
        for subject, n in zip(subjects, launches, strict=True)
    ]
    samples: list[list[float]] = [[] for _ in subjects]
    readings: list[list[ClockReading]] = [[] for _ in subjects]
    places = range(len(subjects))
    begun = clock()
    for turn in range(options.most):
        for which in places if turn % 2 == 0 else reversed(places):
            samples[which].append(_one(subjects[which], launches[which]))
            if reading := subjects[which].clocks():
                readings[which].append(reading)
        if ends(turn + 1, clock() - begun, samples):
            break
    return tuple(_measurement(samples[i], launches[i], steady[i], readings[i]) for i in places)


def _one(subject: Subject, launches: int) -> float:
    # A clock that did not move gives no time, and a time of zero would be infinitely fast.
    return max(subject.seconds(launches) / launches, 1e-12)


def _warm_up(subject: Subject, launches: int, least: float, limit: float, clock: Clock) -> bool:
    """Launch until samples agree, for as long as `least` says at least; whether they did."""
    begun = clock()
    last: list[float] = []
    while True:
        last = [*last, _one(subject, launches)][-_STEADY:]
        agree = len(last) == _STEADY and max(last) - min(last) <= _AGREE * min(last)
        elapsed = clock() - begun
        if (agree and elapsed >= least) or elapsed >= limit:
            return agree


def _measurement(
    samples: list[float], launches: int, steady: bool, readings: list[ClockReading]
) -> Measurement:
    plain = Measurement(samples=tuple(samples), launches=launches, steady=steady)
    if not readings:
        return plain
    sm, memory = [r.sm for r in readings], [r.memory for r in readings]
    reasons = dict.fromkeys(reason for reading in readings for reason in reading.held_back)
    if not reasons and median(sm[len(sm) // 2 :]) < (1 - _SLOWED) * max(sm):
        reasons["clock"] = None
    return dataclasses.replace(
        plain, sm=(min(sm), max(sm)), memory=(min(memory), max(memory)), held_back=tuple(reasons)
    )
