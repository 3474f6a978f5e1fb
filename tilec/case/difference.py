"""Where two arrays differ, for people: the first wrong element among its neighbours, and how large
the errors are.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from tilec.case.compare import CHUNK, distances, plain
from tilec.case.ulps import UNKNOWN, Array, ulps
from tilec.manifest.types import Tolerance

BEFORE, BEHIND = 3, 4
# Decades of the histogram; what is smaller than the smallest of them is counted with it.
MOST_DECADES = 8
NOT_FINITE = "not finite"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Element:
    """One element of both arrays.

    Attributes:
        index: its place. ok: it is within the tolerance.
        got, expected: its values. error: how far they are apart; infinite where one alone is NaN or
            infinite.
        ulp: how many numbers of the dtype lie between them, counted from one to the other; None
            where one alone is NaN.
    """

    index: tuple[int, ...]
    ok: bool
    got: int | float | bool
    expected: int | float | bool
    error: float
    ulp: int | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Bin:
    """How many elements are so far off: `low` <= error < `high`, both 0 for equal ones, infinite
    where one value alone is not finite.
    """

    low: float
    high: float
    count: int
    off: int

    @property
    def label(self) -> str:
        """`equal`, `1e-03 to 1e-02`, `not finite`."""
        if math.isinf(self.low):
            return NOT_FINITE
        if self.high == 0:
            return "equal"
        return f"below {self.high:.0e}" if self.low == 0 else f"{self.low:.0e} to {self.high:.0e}"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """What is shown of an output that is off: neighbours of the first wrong element in its row, and
    the errors of all by decade.
    """

    window: tuple[Element, ...]
    histogram: tuple[Bin, ...]


def difference_of(
    actual: Array, expected: Array, tolerance: Tolerance, first: tuple[int, ...]
) -> Difference:
    """The difference of two arrays of equal shape.

    Args:
        actual: what the kernel gave.
        expected: by the reference; it may be of a wider dtype.
        tolerance: within which elements are right.
        first: the first element that is wrong.
    """
    place = int(np.ravel_multi_index(first, actual.shape)) if first else 0
    start = place - min(BEFORE, first[-1]) if first else 0
    end = place + min(BEHIND, actual.shape[-1] - 1 - first[-1]) + 1 if first else 1
    left, right = actual.reshape(-1), expected.reshape(-1)
    errors, wrong = distances(left[start:end], right[start:end], tolerance)
    steps = ulps(left[start:end], right[start:end])
    window = tuple(
        Element(
            index=tuple(int(i) for i in np.unravel_index(at, actual.shape)) if first else (),
            ok=not wrong[at - start],
            got=plain(left[at]),
            expected=plain(right[at]),
            error=float(errors[at - start]),
            ulp=int(steps[at - start]) if steps[at - start] != UNKNOWN else None,
        )
        for at in range(start, end)
    )
    return Difference(window=window, histogram=_histogram(left, right, tolerance))


def _histogram(left: Array, right: Array, tolerance: Tolerance) -> tuple[Bin, ...]:
    """Every element by the decade of its error: equal ones first, then from small to large,
    infinite ones at the end.
    """
    counts: dict[int, list[int]] = {}
    equal, infinite = [0, 0], [0, 0]
    for start in range(0, left.size, CHUNK):
        errors, wrong = distances(
            left[start : start + CHUNK], right[start : start + CHUNK], tolerance
        )
        for bucket, chosen in ((equal, errors == 0), (infinite, np.isinf(errors))):
            bucket[0] += int(chosen.sum())
            bucket[1] += int(wrong[chosen].sum())
        some = (errors > 0) & np.isfinite(errors)
        decades = np.floor(np.log10(errors[some])).astype(np.int64)
        for decade in np.unique(decades):
            held = counts.setdefault(int(decade), [0, 0])
            held[0] += int((decades == decade).sum())
            held[1] += int(wrong[some][decades == decade].sum())
    return tuple(_bins(equal, counts, infinite))


def _bins(equal: list[int], counts: dict[int, list[int]], infinite: list[int]) -> list[Bin]:
    rows = [Bin(low=0.0, high=0.0, count=equal[0], off=equal[1])] if equal[0] else []
    decades = sorted(counts)
    if decades:
        least = max(decades[0], decades[-1] - MOST_DECADES + 1)
        under = [counts[decade] for decade in decades if decade < least]
        if under:
            rows.append(
                Bin(
                    low=0.0,
                    high=_power(least),
                    count=sum(c for c, _ in under),
                    off=sum(o for _, o in under),
                )
            )
        for decade in range(least, decades[-1] + 1):
            count, off = counts.get(decade, (0, 0))
            rows.append(Bin(low=_power(decade), high=_power(decade + 1), count=count, off=off))
    if infinite[0]:
        rows.append(Bin(low=math.inf, high=math.inf, count=infinite[0], off=infinite[1]))
    return rows


def _power(decade: int) -> float:
    return float(f"1e{decade}")
