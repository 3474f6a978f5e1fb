"""Rejects candidates by their images alone: over budget, or duplicates."""

from __future__ import annotations

from collections.abc import Sequence

from tilec.compile.assemble import over_budget
from tilec.manifest.types import Budget
from tilec.tune.space import Point
from tilec_runtime.model import expr
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import KernelInfo, VariantInfo


def refusal(images: Sequence[ImageInfo], budget: Budget) -> str:
    """Return why a candidate cannot be shipped; empty if it can."""
    for image in images:
        for name, value, limit in over_budget(budget, image.resources):
            return f"{name} {value}, over the budget of {limit}"
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
    used = {name for text in texts for name in expr.parse(text).names} | set(info.dtype_axes)
    code = tuple(
        (v.assume, v.abi, tuple((image.digest, image.symbol) for image in v.images))
        for v in variants
    )
    return code, tuple((name, value) for name, value in point if name in used)
