"""Rejects candidates by their images alone: over budget, too large for a block, duplicates."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilec.inspection.report import usage
from tilec.manifest.types import Budget
from tilec.model.occupancy import Occupancy, occupancy
from tilec.tune.space import Point
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model import expr
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import KernelInfo, VariantInfo


def refusal(images: Sequence[ImageInfo], budget: Budget) -> str:
    """Return why a candidate cannot be shipped or launched; empty if it can."""
    used = usage(image.resources for image in images)
    rows = (
        ("registers", used.registers, budget.registers),
        ("bytes spilled", used.spills, budget.spills),
        ("bytes of shared memory", used.shared, budget.shared),
        ("bytes of stack", used.stack, budget.stack),
        ("bytes of constants", used.constant, budget.constant),
    )
    for name, need, limit in rows:
        if need is not None and limit is not None and need > limit:
            return f"{need} {name}, over the budget of {limit}"
    limiters = {
        "registers": f"{used.registers} registers a thread",
        "shared": f"{used.shared} bytes of shared memory",
    }
    for image in images:
        held = _occupancy(image)
        if held is not None and not held.blocks_per_sm:
            return f"no block fits a multiprocessor: {limiters.get(held.limiter, held.limiter)}"
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


def _occupancy(image: ImageInfo) -> Occupancy | None:
    """Return the occupancy of an image; None if its resources are unknown."""
    threads = math.prod(image.block or image.required_block or (0,))
    known = threads and image.resources.registers is not None
    if image.target.kind is not TargetKind.CUBIN or not known:
        return None
    return occupancy(
        image.target.arch,
        threads_per_block=threads,
        registers=image.resources.registers or 0,
        shared_static=image.resources.shared or 0,
    )
