"""How vendor_kernels.py measures: samples in turns, medians and intervals, CUDA graphs of many
launches; and torch's ways.
"""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vendor_tasks import Task

Replay = Callable[[], float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is measured.

    Attributes:
        sample: seconds of a sample. choosing: samples to choose a variant by. rounds: samples of
            what is compared.
        most: samples of rows that a first look finds near what is wanted.
    """

    sample: float
    choosing: int
    rounds: int
    most: int = 0


def relative_error(found: Any, right: Any) -> float:
    """Of the whole output; NaN where it holds any."""
    difference = (found.float().reshape(right.shape) - right).norm() / right.norm().clamp_min(1e-30)
    return float(difference)


def vendor_ways(
    task: Task, clock: Clock, plan: Plan
) -> tuple[dict[str, Callable[[int], Any]], dict[str, str]]:
    """torch's ways that work here, and why the others do not."""
    works, refused = {}, {}
    for name, run in task.vendors.items():

        def turned(i: int, run: Callable[[int], Any] = run) -> Any:
            return run(i % task.sets)

        try:
            run(0)
            clock.prepared(
                turned, task.sets, plan.sample
            )  # not everything that runs can be captured
            works[name] = turned
        except Exception as error:  # noqa: BLE001 - a backend that refuses this size is named, with its reason
            refused[name] = f"{type(error).__name__}: {error}".split("\n")[0]
    return works, refused


Samples = dict[str, list[float]]


def in_turns(
    task: Task,
    contenders: Mapping[str, Callable[[int], Any]],
    clock: Clock,
    plan: Plan,
    near: Callable[[Samples], bool] | None = None,
) -> Samples:
    """Seconds of one launch, in rounds: each round has one sample of each, in an order of its own.

    Args:
        task: with how many sets of arguments there are.
        contenders: launches of set i, by name.
        clock: times them.
        plan: how many rounds.
        near: says of the samples of the plan's rounds whether the plan's most are to be made.
    """
    ready = {name: clock.prepared(run, task.sets, plan.sample) for name, run in contenders.items()}
    found: Samples = {name: [] for name in ready}
    order = list(ready)

    def rounds(first: int, last: int) -> None:
        for number in range(first, last):
            random.Random(number).shuffle(order)
            for name in order:
                replay, count = ready[name]
                taken = replay() / count
                if number >= 2:
                    found[name].append(taken)

    rounds(0, plan.rounds + 2)
    if near is not None and near(found):
        rounds(plan.rounds + 2, plan.most + 2)
    return found


def interval(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the median, from the order of the values alone."""
    ordered, n = sorted(values), len(values)
    reach = 0.98 * math.sqrt(n)  # of a binomial distribution with p = 1/2: 1.96 * sqrt(n) / 2
    low, high = max(0, math.floor(n / 2 - reach)), min(n - 1, math.ceil(n / 2 + reach))
    return ordered[low], ordered[high]


def spread(seconds: Sequence[float], task: Task) -> dict[str, Any]:
    """Median time with its interval, and the rate."""
    low, high = interval(seconds)
    middle = statistics.median(seconds)
    outliers = sum(value > 1.2 * middle for value in seconds)
    return {
        "us": round(middle * 1e6, 3),
        "us_95": [round(low * 1e6, 3), round(high * 1e6, 3)],
        "rate": round(task.amount / middle, 3),
        "samples": len(seconds),
        "outliers": outliers,
    }


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> dict[str, Any]:
    """How many times as fast ours is, by rounds."""
    each = [their / our for their, our in zip(theirs, ours, strict=True)]
    low, high = interval(each)
    return {"times": round(statistics.median(each), 4), "times_95": [round(low, 4), round(high, 4)]}


class DeviceClock:
    """Times CUDA graphs of many launches: what a launch costs is outside."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def once(self, run: Callable[[int], Any]) -> None:
        """One launch, waited for."""
        run(0)
        self._torch.cuda.synchronize()

    def prepared(self, run: Callable[[int], Any], sets: int, sample: float) -> tuple[Replay, int]:
        """A replay of about so many seconds, which returns those it took, and its number of
        launches.
        """
        cuda = self._torch.cuda
        stream = cuda.Stream()
        with cuda.stream(stream):
            for i in range(max(2, sets)):  # what is made once is made now
                run(i)
            start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            start.record()
            for i in range(2 * sets):
                run(i)
            end.record()
            end.synchronize()
            each = max(start.elapsed_time(end) * 1e-3 / (2 * sets), 1e-7)
            count = sets * max(1, min(2000, round(sample / each)) // sets)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph, stream=stream):
            for i in range(count):
                run(i)

        def replay() -> float:
            with cuda.stream(stream):
                start.record()
                graph.replay()
                end.record()
            end.synchronize()
            return float(start.elapsed_time(end)) * 1e-3

        return replay, count

    def seen(self) -> dict[str, Any]:
        """Clocks, and whether they were held down."""
        query = "clocks.sm,clocks.mem,temperature.gpu,power.draw,clocks_event_reasons.active"
        try:
            done = subprocess.run(
                ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
                capture_output=True,
                text=True,
                check=True,
            )
        except (OSError, subprocess.CalledProcessError):
            return {}
        return {"device_state": done.stdout.strip().split("\n")[0]}

    def stream(self) -> Any:
        """The stream that launches go to."""
        return self._torch.cuda.current_stream()


class HostClock:
    """Times loops on the host: for the cpu device, to try the program."""

    def __init__(self) -> None:
        from tilec_runtime import Stream

        self._stream = Stream("cpu")

    def once(self, run: Callable[[int], Any]) -> None:
        """One launch, waited for."""
        run(0)
        self._stream.sync()

    def prepared(self, run: Callable[[int], Any], sets: int, sample: float) -> tuple[Replay, int]:
        """Two launches of each set."""
        del sample

        def replay() -> float:
            start = time.perf_counter()
            for i in range(2 * sets):
                run(i)
            self._stream.sync()
            return time.perf_counter() - start

        return replay, 2 * sets

    def seen(self) -> dict[str, Any]:
        """A host has no clocks that are asked for."""
        return {}

    def stream(self) -> Any:
        """The stream that launches go to."""
        return self._stream


Clock = DeviceClock | HostClock
