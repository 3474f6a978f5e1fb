"""Measures launches: warms up, takes samples until the median is known, and watches the clocks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import Protocol

from tilec.bench.statistics import CONFIDENCE, Summary, series_interval, summarize

Clock = Callable[[], float]

# Most launches of a sample: enough that its ends do not count, and few enough for a CUDA graph.
MOST_LAUNCHES = 512
# Consecutive samples that have to agree, and how well, before a device counts as warm.
_STEADY, _AGREE = 4, 0.02
# A clock that falls by this part of its maximum was throttled.
_SLOWED = 0.05


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ClockReading:
    """Clocks of a device in MHz, and what throttles them (`power`, `heat`); empty for nothing."""

    sm: int
    memory: int
    held_back: tuple[str, ...] = ()


class Subject(Protocol):
    """Launches that can be measured."""

    def seconds(self, launches: int) -> float:
        """Return the device time of consecutive launches in seconds."""

    def clocks(self) -> ClockReading | None:
        """Return the clocks now; None where they cannot be read."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class MeasureOptions:
    """Options of one measurement.

    Attributes:
        sample: seconds that a sample should last; shorter launches are repeated.
        warm_up: most seconds of warming up.
        least_warm_up: least seconds; clocks that rise in steps look steady on each step.
        least, most: number of samples.
        seconds: stop after these, once there are `least` samples.
        precise: stop if the interval of the median is narrower than this part of it.
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
    """The samples of one subject.

    Attributes:
        samples: seconds of one launch, in the order in which they were taken.
        launches: in each sample.
        steady: the device was warm before the first sample.
        sm, memory: least and greatest clock in MHz; None where they cannot be read.
        held_back: what throttled the clocks; `clock` if only the clock itself shows it.
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
    """Measure one subject.

    Args:
        subject: the launches.
        options: how to measure.
        clock: seconds of the host, for the limits alone.
    """
    return measure_together((subject,), options, clock=clock)[0]


def measure_together(
    subjects: Sequence[Subject], options: MeasureOptions = MeasureOptions(), *, clock: Clock
) -> tuple[Measurement, ...]:
    """Measure several subjects in turn, there and back, until all medians are known.

    The samples of one turn see the same state of the machine; each subject goes first in every
    second turn, and the number of turns is even.
    """
    launches = [launches_of(subject, options.sample) for subject in subjects]
    runs = [
        _Run(subject, count, _warm_up(subject, count, options, len(subjects), clock))
        for subject, count in zip(subjects, launches, strict=True)
    ]
    begun, look = clock(), options.least
    for round_number in range(1, options.most + 1):
        for run in runs if round_number % 2 else reversed(runs):
            run.sample()
        if round_number < options.least or (round_number % 2 and len(subjects) > 1):
            continue
        if clock() - begun >= options.seconds * len(subjects):
            break
        # Asking after every sample would stop by luck: ask again after half as many more.
        if round_number >= look:
            look = max(look + 2, look * 3 // 2)
            if all(_is_known(run.samples, options.precise) for run in runs):
                break
    return tuple(run.measurement() for run in runs)


class _Run:
    """A subject with the samples taken so far."""

    def __init__(self, subject: Subject, launches: int, steady: bool) -> None:
        self._subject, self._launches, self._steady = subject, launches, steady
        self.samples: list[float] = []
        self._readings: list[ClockReading] = []

    def sample(self) -> None:
        """Take a sample, and read the clocks behind it."""
        self.samples.append(_sample(self._subject, self._launches))
        if reading := self._subject.clocks():
            self._readings.append(reading)

    def measurement(self) -> Measurement:
        """Return the samples, with the range of the clocks."""
        plain = Measurement(
            samples=tuple(self.samples), launches=self._launches, steady=self._steady
        )
        if not self._readings:
            return plain
        sm = [reading.sm for reading in self._readings]
        memory = [reading.memory for reading in self._readings]
        reasons = dict.fromkeys(reason for one in self._readings for reason in one.held_back)
        if not reasons and median(sm[len(sm) // 2 :]) < (1 - _SLOWED) * max(sm):
            reasons["clock"] = None
        return dataclasses.replace(
            plain,
            sm=(min(sm), max(sm)),
            memory=(min(memory), max(memory)),
            held_back=tuple(reasons),
        )


def launches_of(subject: Subject, sample: float) -> int:
    """Return the number of launches that last `sample` seconds."""
    subject.seconds(1)  # it may load code
    one = max(subject.seconds(1), 1e-9)
    return max(1, min(MOST_LAUNCHES, math.ceil(sample / one)))


def _is_known(samples: Sequence[float], precise: float) -> bool:
    interval = series_interval(samples)
    return interval.coverage >= CONFIDENCE and interval.high - interval.low <= precise * median(
        samples
    )


def _sample(subject: Subject, launches: int) -> float:
    # A clock that did not advance would make a launch infinitely fast.
    return max(subject.seconds(launches) / launches, 1e-12)


def _warm_up(
    subject: Subject, launches: int, options: MeasureOptions, sharing: int, clock: Clock
) -> bool:
    """Launch until samples agree or the time is over; return whether they agree."""
    begun = clock()
    last: list[float] = []
    while True:
        last = [*last, _sample(subject, launches)][-_STEADY:]
        agree = len(last) == _STEADY and max(last) - min(last) <= _AGREE * min(last)
        elapsed = (clock() - begun) * sharing
        if (agree and elapsed >= options.least_warm_up) or elapsed >= options.warm_up:
            return agree
