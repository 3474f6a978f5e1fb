"""Rejects candidates by their images alone: over budget, too large for a block, duplicates."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

from tilec.manifest.types import Budget
from tilec.model.occupancy import Occupancy, occupancy
from tilec.tune.space import Point
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model import expr
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.image import ImageInfo, Resources
from tilec_runtime.model.kernel import KernelInfo, VariantInfo


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """The resources of a candidate: the maximum over its images; None for unknown."""

    registers: int | None = None
    spills: int | None = None
    shared: int | None = None
    occupancy: Occupancy | None = None


def cost_of(images: Sequence[ImageInfo]) -> Cost:
    """Return the resources that the images of a candidate need."""

    def most(values: Iterable[int | None]) -> int | None:
        known = [value for value in values if value is not None]
        return max(known) if known else None

    fits = [found for image in images if (found := _occupancy(image)) is not None]
    return Cost(
        registers=most(image.resources.registers for image in images),
        spills=most(_spills(image.resources) for image in images),
        shared=most(image.resources.shared for image in images),
        occupancy=min(fits, key=lambda each: each.blocks_per_sm) if fits else None,
    )


def refusal(images: Sequence[ImageInfo], budget: Budget) -> str:
    """Return why a candidate cannot be shipped or launched; empty if it can."""
    cost = cost_of(images)
    rows = (
        ("registers", cost.registers, budget.registers),
        ("bytes spilled", cost.spills, budget.spills),
        ("bytes of shared memory", cost.shared, budget.shared),
        ("bytes of stack", max((i.resources.stack or 0 for i in images), default=0), budget.stack),
        (
            "bytes of constants",
            max((i.resources.constant or 0 for i in images), default=0),
            budget.constant,
        ),
    )
    for name, used, limit in rows:
        if used is not None and limit is not None and used > limit:
            return f"{used} {name}, over the budget of {limit}"
    if cost.occupancy is not None and not cost.occupancy.blocks_per_sm:
        needs = {
            "registers": f"{cost.registers} registers a thread",
            "shared": f"{cost.shared} bytes of shared memory",
        }
        return f"no block fits a multiprocessor: {needs.get(cost.occupancy.limiter, cost.occupancy.limiter)}"
    return ""


def identity(info: KernelInfo, point: Point, variants: Sequence[VariantInfo]) -> object:
    """Return a key that is equal for candidates with the same code and the same launch.

    Grid, block and arguments may name axes, so the code alone does not decide.
    """
    launch = info.launch
    texts = {
        *launch.grid,
        *launch.block,
        launch.shared,
        *(slot.expr for variant in variants for slot in variant.abi),
    }
    used = {name for text in texts for name in _names(text)} | set(info.dtype_axes)
    code = tuple(
        (v.assume, v.abi, tuple((image.digest, image.symbol) for image in v.images))
        for v in variants
    )
    return code, tuple((name, value) for name, value in point if name in used)


def _names(text: str) -> frozenset[str]:
    try:
        return frozenset(expr.parse(text).names)
    except ExpressionError:
        return frozenset(
            name for name in text.replace("(", " ").replace(")", " ").split() if name.isidentifier()
        )


def _spills(used: Resources) -> int | None:
    return None if used.spill_stores is None else max(used.spill_stores, used.spill_loads or 0)


def _occupancy(image: ImageInfo) -> Occupancy | None:
    """Return the occupancy of an image; None if its resources are unknown."""
    threads = (
        math.prod(image.block or image.required_block) if image.block or image.required_block else 0
    )
    if (
        image.target.kind is not TargetKind.CUBIN
        or not threads
        or image.resources.registers is None
    ):
        return None
    return occupancy(
        image.target.arch,
        threads_per_block=threads,
        registers=image.resources.registers,
        shared_static=image.resources.shared or 0,
    )
