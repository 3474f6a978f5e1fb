"""What the benchmarks of launches launch: shapes, classes of arguments, steps of a serving loop;
and their statistics.

Nothing here needs a GPU.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8")
LAYOUTS = ("aligned", "odd", "offset", "padded", "odd pitch", "transposed")
CLASSES = tuple(itertools.islice(itertools.product(DTYPES, LAYOUTS), 50))
TRANSPOSED_ROWS = 16  # a multiple of it is an aligned pitch of the other dimension


@dataclasses.dataclass(frozen=True, slots=True)
class Strided:
    """A view into memory of its own; all numbers count elements.

    Attributes:
        dtype: torch's name.
        shape: rows and columns.
        strides: of rows and columns.
        offset: of the first element.
    """

    dtype: str
    shape: tuple[int, int]
    strides: tuple[int, int]
    offset: int = 0

    @property
    def extent(self) -> int:
        """Elements of the memory that the view needs."""
        return (
            self.offset
            + 1
            + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True))
        )


def distinct_extents(count: int, *, least: int = 257, seed: int = 0) -> list[int]:
    """Extents of which no two are equal, in random order."""
    return random.Random(seed).sample(range(least, least + 4 * count), count)


def strided(dtype: str, layout: str, rows: int, number: int) -> Strided:
    """The view of one class of arguments with a number of rows.

    Args:
        dtype: torch's name.
        layout: one of `LAYOUTS`.
        rows: the extent by which shapes differ.
        number: further shapes of the same rows differ in it.
    """
    columns = 16 * (1 + number)
    match layout:
        case "aligned":
            return Strided(dtype, (rows, columns), (columns, 1))
        case "odd":
            return Strided(dtype, (rows, columns + 3), (columns + 3, 1))
        case "offset":
            return Strided(dtype, (rows, columns), (columns, 1), 1)
        case "padded":
            return Strided(dtype, (rows, columns), (columns + 32, 1))
        case "odd pitch":
            return Strided(dtype, (rows, columns), (columns + 5, 1))
        case "transposed":
            return Strided(
                dtype, (rows, columns), (1, math.ceil(rows / TRANSPOSED_ROWS) * TRANSPOSED_ROWS)
            )
    raise ValueError(f"no such layout: {layout}")


def table(count: int, classes: Sequence[tuple[str, str]] = CLASSES) -> list[Strided]:
    """Views for launches in turn: every one has a shape of its own, and its class is not that of
    the one before.
    """
    each = []
    for place in range(count):
        dtype, layout = classes[place % len(classes)]
        number, rows = divmod(place, 1000)
        each.append(strided(dtype, layout, 1 + rows, number))
    return each


def turns(names: Sequence[str], count: int) -> Iterator[list[str]]:
    """The order of the ways in each round: every way is first, second and so on as often."""
    for number in range(count):
        first = number % len(names)
        yield [*names[first:], *names[:first]]


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def row(
    each: Sequence[Sequence[float]],
    base: Sequence[Sequence[float]] | None = None,
    *,
    timer: float = 0.0,
) -> dict[str, Any]:
    """Microseconds of a launch: median, 99th percentile and the ratio of medians to a base within
    the same round.

    Args:
        each: nanoseconds of launches, by round.
        base: those of the base in the same rounds.
        timer: nanoseconds that reading the clock adds to each.
    """
    medians = [statistics.median(one) - timer for one in each]
    every = [value - timer for one in each for value in one]
    found: dict[str, Any] = {
        "median_us": round(statistics.median(medians) / 1e3, 3),
        "p99_us": round(percentile(every, 99) / 1e3, 3),
    }
    if base is not None:
        ratios = [
            mine / statistics.median(other) for mine, other in zip(medians, base, strict=True)
        ]
        found["times_c_loop"] = round(statistics.median(ratios), 3)
    return found


def merged(tables: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """One table of those of several processes: medians, with what each process had where it is a
    ratio or an addition.
    """
    rows: dict[str, dict[str, Any]] = {}
    for name, first in tables[0].items():
        each = [one[name] for one in tables]
        rows[name] = dict(first)
        for key, value in first.items():
            if isinstance(value, float):
                values = [one[key] for one in each if key in one]
                rows[name][key] = round(statistics.median(values), 3)
                if key.startswith(("times_", "added_")) and len(values) > 1:
                    rows[name][f"{key}_of_processes"] = values
    return rows


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One step of a serving loop.

    Attributes:
        lengths: new tokens of each request; their sum is the extent that all kernels are launched
            with.
        graph: which of the captured graphs is replayed.
    """

    lengths: tuple[int, ...]
    graph: int

    @property
    def tokens(self) -> int:
        """New tokens of all requests."""
        return sum(self.lengths)


def steps(*, seed: int, batch: int = 32, most: int = 64, graphs: int = 2) -> Iterator[Step]:
    """Steps without end, whose batch and lengths change each time."""
    source = random.Random(seed)
    while True:
        requests = source.randint(1, batch)
        yield Step(
            tuple(source.randint(1, most) for _ in range(requests)), source.randrange(graphs)
        )


def growth(samples: Sequence[tuple[float, int]], *, warm: float = 0.25) -> int:
    """By how much memory has grown: the median of the last quarter of samples less that of the
    quarter behind the warm-up.

    Args:
        samples: (seconds, bytes), in order of time.
        warm: share of the time that is left out.
    """
    end = samples[-1][0]
    early = [size for at, size in samples if warm * end <= at < (warm + 0.25) * end]
    late = [size for at, size in samples if at >= 0.75 * end]
    if not early or not late:
        raise ValueError(f"{len(samples)} samples over {end:.1f} s are too few")
    return int(statistics.median(late) - statistics.median(early))
