"""Turns times into rates: work of a launch, ceilings of a device, and which of them bounds it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

# Operations per byte below which no GPU is bound by arithmetic, for any float dtype.
MEMORY_BOUND = 8.0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """The work of one launch; None if the case does not state it.

    Attributes:
        flops: floating-point operations. bytes: read and written.
        dtype: of its matrix product, if it is one.
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
    """The measured limits of a device.

    Attributes:
        copy: bytes per second, read and written, of a copy in its memory; None if not measured.
        products: floating-point operations per second of a large matrix product, by dtype.
        by: what computed the products, such as `torch 2.13.0`; empty for none.
        missing: why something was not measured; empty if all was.
    """

    copy: float | None = None
    products: Mapping[str, float] = dataclasses.field(default_factory=dict)
    by: str = ""
    missing: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """The rates of a launch.

    Attributes:
        bytes, flops: per second.
        share: least time that the ceilings allow over the time taken; None if the ceiling that
            matters is unknown.
        bound: the ceiling that bounds it, `memory` or `compute`; empty without a share.
    """

    bytes: float | None = None
    flops: float | None = None
    share: float | None = None
    bound: str = ""


NO_WORK, NO_RATES = Work(), Rates()


def rates_of(work: Work, seconds: float, ceilings: Ceilings | None = None) -> Rates:
    """Return the rates of a launch of this duration.

    If the ceiling of the dtype's products is unknown, memory alone bounds launches of low
    intensity, and others have no share.
    """
    plain = Rates(
        bytes=None if work.bytes is None else work.bytes / seconds,
        flops=None if work.flops is None else work.flops / seconds,
    )
    if ceilings is None:
        return plain
    memory = work.bytes / ceilings.copy if work.bytes is not None and ceilings.copy else None
    peak = ceilings.products.get(work.dtype)
    compute = work.flops / peak if work.flops is not None and peak else None
    if compute is None and (memory is None or (work.intensity or 0.0) > MEMORY_BOUND):
        return plain
    least = max(memory or 0.0, compute or 0.0)
    bound = "memory" if memory == least else "compute"
    return dataclasses.replace(plain, share=least / seconds, bound=bound)


def amount_of(value: object) -> float | None:
    """Return the value of an expression for `flops` or `bytes`; None if it is no amount."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None
