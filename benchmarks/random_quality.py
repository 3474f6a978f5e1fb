"""Statistical tests of api.rand and api.randn, over the values of the cpu device, whose bits are a
GPU's too.

usage: python benchmarks/random_quality.py [--values 100000000] [--seed 20240229] [--out
benchmarks/results/random_quality.json]. Values come in chunks of 2^20. Every test gives a p-value;
one below 10^-6 fails. Exit code 1 where one does.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tilec_runtime.kernels.philox import write_normal, write_uniform

CHUNK = 1 << 20
LIMIT = 1e-6
Array = Any


class Test(Protocol):
    """Takes chunks of values, then gives p-values by name."""

    def add(self, values: Array) -> None:
        """Count a chunk."""

    def result(self) -> dict[str, float]:
        """P-values by name."""


def main() -> int:
    """Test and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--values", type=int, default=100_000_000, help="of each kind, at least")
    parser.add_argument("--seed", type=int, default=20240229)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).resolve().parent / "results" / "random_quality.json",
    )
    arguments = parser.parse_args()
    started = time.process_time()
    found = {
        **uniform_quality(arguments.values, arguments.seed),
        **normal_quality(arguments.values, arguments.seed),
    }
    bad = failures(found)
    document = {
        "schema_version": 1,
        "benchmark": "random_quality",
        "values": -(-arguments.values // CHUNK) * CHUNK,
        "seed": arguments.seed,
        "tests": len(found),
        "failed": bad,
        "least": min(found.values()),
        "greatest": max(found.values()),
        "seconds": round(time.process_time() - started, 1),
        "p_values": {name: float(f"{p:.6g}") for name, p in found.items()},
    }
    arguments.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for name, p in found.items():
        print(f"{name:44} {p:.6f}{'  FAILED' if name in bad else ''}")
    least, greatest = min(found.values()), max(found.values())
    print(
        f"{len(found)} tests over {document['values']} values each, {len(bad)} failed; p from {least:.2g} to {greatest:.6f}"
    )
    return 1 if bad else 0


def uniform_quality(count: int, seed: int) -> dict[str, float]:
    """P-values of rand in f32, and of neighbouring seeds."""
    tests: list[Test] = [
        Uniform(),
        Bytes(),
        Pairs(),
        Orderings(),
        Gaps(),
        Birthdays(),
        Signs(),
        Correlation(),
        Spectrum(),
    ]
    across = Across()
    for first, values in chunks(count, seed, normal=False):
        for test in tests:
            test.add(values)
        across.add(values, drawn(first, len(values), seed + 1, normal=False))
    return {f"rand: {name}": p for test in (*tests, across) for name, p in test.result().items()}


def normal_quality(count: int, seed: int) -> dict[str, float]:
    """P-values of randn in f32."""
    tests: list[Test] = [Normal(), Couples(), Correlation(normal=True), Spectrum(normal=True)]
    for _, values in chunks(count, seed, normal=True):
        for test in tests:
            test.add(values)
    return {f"randn: {name}": p for test in tests for name, p in test.result().items()}


def failures(found: dict[str, float]) -> list[str]:
    """The tests that random numbers would not fail."""
    return [name for name, p in found.items() if p < LIMIT]


def chunks(count: int, seed: int, *, normal: bool) -> Iterator[tuple[int, Array]]:
    """(first element, values) of whole chunks, as many as hold this many values."""
    for first in range(0, count, CHUNK):
        yield first, drawn(first, CHUNK, seed, normal=normal)


def drawn(first: int, count: int, seed: int, *, normal: bool) -> Array:
    """Elements of the sequence, in float64."""
    bits = np.empty(count, np.uint32)
    if normal:
        write_normal(bits, "f32", seed, 0.0, 1.0, first)
    else:
        write_uniform(bits, "f32", seed, first)
    return bits.view(np.float32).astype(np.float64)


# Tests of uniform numbers


class Uniform:
    """Mean, variance, Kolmogorov and Smirnov's distance over 65,536 cells, and the cells'
    chi-square.
    """

    def __init__(self) -> None:
        self.counts, self.first, self.second, self.size = np.zeros(65536), 0.0, 0.0, 0

    def add(self, values: Array) -> None:
        """Count a chunk."""
        self.counts += np.bincount((values * 65536).astype(np.int64), minlength=65536)
        centred = values - (0.5 - 2.0**-25)  # numbers are multiples of 2^-24 below 1
        self.first += float(centred.sum())
        self.second += float((centred * centred).sum())
        self.size += values.size

    def result(self) -> dict[str, float]:
        """P-values by name."""
        n = self.size
        return {
            "mean": two_sided(self.first / math.sqrt(n / 12)),
            "variance": two_sided((self.second - n / 12) / math.sqrt(n / 180)),
            "Kolmogorov-Smirnov": kolmogorov(self.counts, np.full(65536, 1 / 65536)),
            "chi-square of 65536 cells": chi_square(self.counts, np.full(65536, n / 65536)),
        }


class Bytes:
    """The three bytes of each number, and its 24 bits."""

    def __init__(self) -> None:
        self.bytes, self.bits, self.size = np.zeros((3, 256)), np.zeros(24), 0

    def add(self, values: Array) -> None:
        """Count a chunk."""
        words = (values * 2**24).astype(np.uint32)
        for place in range(3):
            self.bytes[place] += np.bincount(
                (words >> np.uint32(8 * place)) & np.uint32(255), minlength=256
            )
        self.size += values.size

    def result(self) -> dict[str, float]:
        """P-values by name."""
        found = {
            f"chi-square of byte {place}": chi_square(
                self.bytes[place], np.full(256, self.size / 256)
            )
            for place in range(3)
        }
        ones = [
            self.bytes[bit // 8][(np.arange(256) >> bit % 8 & 1) == 1].sum() for bit in range(24)
        ]
        deviations = (np.array(ones) - self.size / 2) / math.sqrt(self.size / 4)
        found["24 bits"] = chi_tail(float((deviations**2).sum()), 24)
        return found


class Pairs:
    """Pairs of neighbours over 256 times 256 cells, and triples over 32 to the third."""

    def __init__(self) -> None:
        self.pairs, self.triples = np.zeros(65536), np.zeros(32768)

    def add(self, values: Array) -> None:
        """Count a chunk."""
        cells = (values * 256).astype(np.int64)
        self.pairs += np.bincount(cells[::2] * 256 + cells[1::2], minlength=65536)
        rough = (values * 32).astype(np.int64)[: values.size // 3 * 3]
        self.triples += np.bincount(
            rough[::3] * 1024 + rough[1::3] * 32 + rough[2::3], minlength=32768
        )

    def result(self) -> dict[str, float]:
        """P-values by name."""
        return {"pairs": even(self.pairs), "triples": even(self.triples)}


class Orderings:
    """Which of the 24 orders four neighbours are in."""

    def __init__(self) -> None:
        self.counts = np.zeros(24)

    def add(self, values: Array) -> None:
        """Count a chunk."""
        fours = values.reshape(-1, 4)
        code = np.zeros(len(fours), np.int64)
        for place, base in ((0, 6), (1, 2), (2, 1)):  # Lehmer's code
            code += base * (fours[:, place, None] > fours[:, place + 1 :]).sum(1)
        self.counts += np.bincount(code, minlength=24)

    def result(self) -> dict[str, float]:
        """P-values by name."""
        return {"orderings of four": even(self.counts)}


class Gaps:
    """How many numbers lie between two that are below 1/16."""

    _MOST = 200

    def __init__(self) -> None:
        self.counts = np.zeros(self._MOST + 1)

    def add(self, values: Array) -> None:
        """Count a chunk."""
        gaps = np.diff(np.flatnonzero(values < 1 / 16)) - 1
        self.counts += np.bincount(np.minimum(gaps, self._MOST), minlength=self._MOST + 1)

    def result(self) -> dict[str, float]:
        """P-values by name."""
        share = (1 / 16) * (15 / 16) ** np.arange(self._MOST + 1)
        share[-1] = (15 / 16) ** self._MOST
        return {"gaps": chi_square(self.counts, share * self.counts.sum())}


class Birthdays:
    """Marsaglia's birthday spacings: 2^17 birthdays in a year of 2^48 days (two numbers each); two
    equal spacings are expected.
    """

    def __init__(self) -> None:
        self.equal, self.years = 0, 0

    def add(self, values: Array) -> None:
        """Count a chunk."""
        parts = (values * 2**24).astype(np.int64)
        days = np.sort((parts[::2] << 24 | parts[1::2]).reshape(-1, 1 << 17), axis=1)
        spacings = np.sort(np.diff(days, axis=1), axis=1)
        self.equal += int((np.diff(spacings, axis=1) == 0).sum())
        self.years += len(days)

    def result(self) -> dict[str, float]:
        """P-values by name."""
        return {"birthday spacings": poisson(self.equal, 2 * self.years)}


class Signs:
    """Runs above and below one half: how many, and how long."""

    _MOST = 20

    def __init__(self) -> None:
        self.counts, self.runs, self.size = np.zeros(self._MOST), 0, 0

    def add(self, values: Array) -> None:
        """Count a chunk."""
        changes = np.flatnonzero(np.diff(values >= 0.5)) + 1
        self.runs += len(changes)
        self.size += values.size - 1
        self.counts += np.bincount(
            np.minimum(np.diff(changes), self._MOST) - 1, minlength=self._MOST
        )

    def result(self) -> dict[str, float]:
        """P-values by name."""
        share = 0.5 ** np.arange(1, self._MOST + 1)
        share[-1] *= 2
        return {
            "number of runs": two_sided((self.runs - self.size / 2) / math.sqrt(self.size / 4)),
            "length of runs": chi_square(self.counts, share * self.counts.sum()),
        }


class Correlation:
    """Of numbers up to 64 places apart (within chunks), and of their squares."""

    _LAGS = 64

    def __init__(self, *, normal: bool = False) -> None:
        self.normal = normal
        self.sums, self.squares, self.sizes = (
            np.zeros(self._LAGS),
            np.zeros(self._LAGS),
            np.zeros(self._LAGS),
        )

    def add(self, values: Array) -> None:
        """Count a chunk."""
        unit = values if self.normal else (values - 0.5) * math.sqrt(12)
        square = (unit * unit - 1) / math.sqrt(2 if self.normal else 0.8)
        for lag in range(1, self._LAGS + 1):
            self.sums[lag - 1] += unit[lag:] @ unit[:-lag]
            self.squares[lag - 1] += square[lag:] @ square[:-lag]
            self.sizes[lag - 1] += unit.size - lag

    def result(self) -> dict[str, float]:
        """P-values by name."""
        found = {}
        for name, sums in (
            ("serial correlation, 64 lags", self.sums),
            ("the same of squares", self.squares),
        ):
            found[name] = chi_tail(float((sums**2 / self.sizes).sum()), self._LAGS)
        return found


class Spectrum:
    """The power of every frequency of a chunk is distributed exponentially: 1000 cells of equal
    share, and the mean by frequency.
    """

    _BANDS = 4096

    def __init__(self, *, normal: bool = False) -> None:
        self.normal = normal
        self.counts, self.bands, self.chunks = np.zeros(1000), np.zeros(self._BANDS), 0

    def add(self, values: Array) -> None:
        """Count a chunk."""
        unit = values if self.normal else (values - 0.5) * math.sqrt(12)
        power = np.abs(np.fft.rfft(unit)[1:-1]) ** 2 / unit.size
        cells = np.minimum((-np.expm1(-power) * 1000).astype(np.int64), 999)
        self.counts += np.bincount(cells, minlength=1000)
        whole = power[: power.size // self._BANDS * self._BANDS]
        self.bands += whole.reshape(self._BANDS, -1).mean(1) * math.sqrt(
            whole.size / self._BANDS
        ) - math.sqrt(whole.size / self._BANDS)
        self.chunks += 1

    def result(self) -> dict[str, float]:
        """P-values by name."""
        return {
            "spectrum": even(self.counts),
            "spectrum by band": chi_tail(float((self.bands**2).sum() / self.chunks), self._BANDS),
        }


class Across:
    """Numbers at the same place under neighbouring seeds do not depend on each other."""

    def __init__(self) -> None:
        self.sum, self.size, self.cells = 0.0, 0, np.zeros(4096)

    def add(self, values: Array, others: Array) -> None:
        """Count a chunk of each."""
        self.sum += float((values - 0.5) @ (others - 0.5)) * 12
        self.size += values.size
        self.cells += np.bincount(
            (values * 64).astype(np.int64) * 64 + (others * 64).astype(np.int64), minlength=4096
        )

    def result(self) -> dict[str, float]:
        """P-values by name."""
        return {
            "neighbouring seeds": two_sided(self.sum / math.sqrt(self.size)),
            "neighbouring seeds, cells": even(self.cells),
        }


# Tests of normal numbers


class Normal:
    """Six moments, Kolmogorov and Smirnov's distance and chi-square over cells of 1/4096, and the
    numbers beyond 4 and 5.
    """

    _EDGE, _CELLS = 8, 4096

    def __init__(self) -> None:
        self.counts, self.sums, self.size = np.zeros(2 * self._EDGE * self._CELLS), np.zeros(7), 0

    def add(self, values: Array) -> None:
        """Count a chunk."""
        cells = np.floor(values * self._CELLS).astype(np.int64) + self._EDGE * self._CELLS
        self.counts += np.bincount(
            np.clip(cells, 0, self.counts.size - 1), minlength=self.counts.size
        )
        power = values.copy()
        for order in range(1, 7):
            self.sums[order] += float(power.sum())
            power *= values
        self.size += values.size

    def result(self) -> dict[str, float]:
        """P-values by name."""
        n, found = self.size, {}
        moments = (1.0, 0, 1, 0, 3, 0, 15, 0, 105, 0, 945, 0, 10395)
        for order in range(1, 7):
            deviation = math.sqrt(n * (moments[2 * order] - moments[order] ** 2))
            found[f"moment {order}"] = two_sided(
                (self.sums[order] - n * moments[order]) / deviation
            )
        edges = [
            k / self._CELLS for k in range(-self._EDGE * self._CELLS, self._EDGE * self._CELLS + 1)
        ]
        share = np.diff(
            [
                0.5 * math.erfc(-x / math.sqrt(2))
                if x < 0
                else 1 - 0.5 * math.erfc(x / math.sqrt(2))
                for x in edges
            ]
        )
        upper = share[::-1]
        share = np.where(
            np.arange(share.size) < share.size // 2, share, upper
        )  # far from 0 the lower half is the accurate one
        found["Kolmogorov-Smirnov"] = kolmogorov(self.counts, share)
        counts, wanted = merged(self.counts, share * n)
        found["chi-square of cells"] = chi_square(counts, wanted)
        for bound in (4, 5):
            beyond = (
                self.counts[: (self._EDGE - bound) * self._CELLS].sum()
                + self.counts[(self._EDGE + bound) * self._CELLS :].sum()
            )
            wanted_beyond = n * math.erfc(bound / math.sqrt(2))
            found[f"numbers beyond {bound}"] = two_sided(
                (beyond - wanted_beyond) / math.sqrt(wanted_beyond)
            )
        return found


class Couples:
    """The two numbers that come out of one pair of words: 64 times 64 cells of equal share, angle
    and radius.
    """

    def __init__(self) -> None:
        self.cells, self.angles, self.radii = np.zeros(4096), np.zeros(1024), np.zeros(1024)
        # The quantiles, by bisection in the distribution function.
        self.quantiles = np.array([quantile(k / 64) for k in range(1, 64)])

    def add(self, values: Array) -> None:
        """Count a chunk."""
        one, two = values[::2], values[1::2]
        cells = np.searchsorted(self.quantiles, one) * 64 + np.searchsorted(self.quantiles, two)
        self.cells += np.bincount(cells, minlength=4096)
        turns = np.arctan2(two, one) / (2 * math.pi) + 0.5
        self.angles += np.bincount(
            np.minimum((turns * 1024).astype(np.int64), 1023), minlength=1024
        )
        share = np.exp(-(one * one + two * two) / 2)
        self.radii += np.bincount(np.minimum((share * 1024).astype(np.int64), 1023), minlength=1024)

    def result(self) -> dict[str, float]:
        """P-values by name."""
        return {
            "couples": even(self.cells),
            "angles of couples": even(self.angles),
            "radii of couples": even(self.radii),
        }


# P-values


def two_sided(deviations: float) -> float:
    """Of a standard normal number at least as far from 0."""
    return math.erfc(abs(deviations) / math.sqrt(2))


def even(counts: Array) -> float:
    """Of counts in cells of equal share."""
    return chi_square(counts, np.full(counts.size, counts.sum() / counts.size))


def chi_square(counts: Array, wanted: Array) -> float:
    """Of counts at least as far from what is wanted."""
    counts, wanted = merged(counts, wanted)
    return chi_tail(float(((counts - wanted) ** 2 / wanted).sum()), len(counts) - 1)


def merged(counts: Array, wanted: Array) -> tuple[Array, Array]:
    """Cells with at least 10 wanted; smaller ones are put together with their neighbours."""
    found: list[list[float]] = [[0.0, 0.0]]
    if wanted.min() >= 10:
        return counts, wanted
    for count, want in zip(counts.tolist(), wanted.tolist(), strict=True):
        if found[-1][1] >= 10:
            found.append([0.0, 0.0])
        found[-1][0] += count
        found[-1][1] += want
    if found[-1][1] < 10 and len(found) > 1:
        last = found.pop()
        found[-1] = [found[-1][0] + last[0], found[-1][1] + last[1]]
    array = np.array(found)
    return array[:, 0], array[:, 1]


def chi_tail(value: float, freedom: int) -> float:
    """The upper tail of the chi-square distribution, by Wilson and Hilferty."""
    spread = 2 / (9 * freedom)
    return 0.5 * math.erfc(((value / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(2 * spread))


def poisson(count: int, wanted: float) -> float:
    """Of a count that is at least as far out, on its side twice."""
    share = np.exp([k * math.log(wanted) - wanted - math.lgamma(k + 1) for k in range(count + 1)])
    below = float(share.sum())
    return min(1.0, 2 * min(below, 1 - below + float(share[-1])))


def kolmogorov(counts: Array, share: Array) -> float:
    """Of a largest distance between two distribution functions at least as great."""
    distance = float(np.abs(np.cumsum(counts) / counts.sum() - np.cumsum(share)).max())
    scaled = distance * math.sqrt(counts.sum())
    return (
        min(
            1.0,
            max(
                0.0,
                2
                * sum(
                    (-1) ** (k - 1) * math.exp(-2 * k * k * scaled * scaled) for k in range(1, 101)
                ),
            ),
        )
        if scaled > 0.2
        else 1.0
    )


def quantile(share: float) -> float:
    """Where the normal distribution function has this value."""
    low, high = -9.0, 9.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if 0.5 * math.erfc(-middle / math.sqrt(2)) < share else (low, middle)
        )
    return low


if __name__ == "__main__":
    sys.exit(main())
