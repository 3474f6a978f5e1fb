"""Rates out of times: what a launch moves and computes, how much of that a device can do, and which
of the two bounds it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What one launch does; None for what its case does not say. `dtype` is that of its widest
    matrix product, were it one.
    """

    flops: float | None = None
    bytes: float | None = None
    dtype: str = ""

    @property
    def intensity(self) -> float | None:
        """Floating-point operations for each byte."""
        return self.flops / self.bytes if self.flops is not None and self.bytes else None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Ceilings:
    """What a device was seen to do at most.

    Attributes:
        copy: bytes per second, read and written, of a copy in its memory; None where it was not
            measured.
        products: floating-point operations per second of a large matrix product, by dtype.
        by: what computed the products, such as `torch 2.13.0`; empty for none.
        missing: why something was not measured; empty where all was.
    """

    copy: float | None = None
    products: Mapping[str, float] = dataclasses.field(default_factory=dict)
    by: str = ""
    missing: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """What a time comes to.

    Attributes:
        bytes, flops: per second.
        share: the least time that the ceilings allow over the time it took; None where a ceiling
            that matters is not known.
        bound: which ceiling allows no less: `memory` or `compute`; empty where there is no share.
    """

    bytes: float | None = None
    flops: float | None = None
    share: float | None = None
    bound: str = ""


NO_WORK, NO_RATES = Work(), Rates()


def rates_of(work: Work, seconds: float, ceilings: Ceilings | None = None) -> Rates:
    """What a launch achieves that takes so many seconds.

    Without the ceiling of a dtype's products, memory alone is what it is held against, if its
    intensity is too low to be bound by them on any GPU: an operation for each byte or so.
    """
    moved, computed = (
        None if amount is None else amount / seconds for amount in (work.bytes, work.flops)
    )
    plain = Rates(bytes=moved, flops=computed)
    if ceilings is None:
        return plain
    memory = work.bytes / ceilings.copy if work.bytes is not None and ceilings.copy else None
    peak = ceilings.products.get(work.dtype)
    compute = work.flops / peak if work.flops is not None and peak else None
    if compute is None and not (memory is not None and (work.intensity or 0.0) <= MEMORY_BOUND):
        return plain
    if memory is None and compute is None:
        return plain
    least = max(memory or 0.0, compute or 0.0)
    bound = "memory" if memory is not None and memory == least else "compute"
    return dataclasses.replace(plain, share=least / seconds, bound=bound)


# Operations for each byte below which no GPU of the table is bound by its arithmetic, whatever the
# dtype of floats.
MEMORY_BOUND = 8.0


def amount_of(value: object) -> float | None:
    """What an expression for `flops` or `bytes` gave, where it is an amount."""
    good = (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value >= 0
    )
    return float(value) if good else None  # type: ignore[arg-type]
