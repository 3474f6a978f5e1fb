"""Number of blocks of an image that one multiprocessor of its target can hold."""

from __future__ import annotations

import math

from tilec.model.occupancy import Occupancy, occupancy
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model.arch import ARCHS, TargetKind
from tilec_runtime.model.expr import parse
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import KernelInfo, VariantInfo


def residency(kernel: KernelInfo, variant: VariantInfo, image: ImageInfo) -> Occupancy | None:
    """Return the resident blocks on one multiprocessor of the image's target.

    Return None for portable code, or if block or shared memory depend on the arguments of a launch.
    """
    arch = ARCHS.get(image.target.cc)
    if (
        image.target.kind is not TargetKind.CUBIN
        or arch is None
        or image.resources.registers is None
    ):
        return None
    if image.block:
        # The image's resources already include the dynamic shared memory that the compiler chose.
        threads, dynamic = math.prod(image.block), 0
    else:
        extents = image.required_block or _numbers(kernel.launch.block, variant)
        shared = _numbers((kernel.launch.shared,), variant)
        if not extents or not shared:
            return None
        threads, dynamic = math.prod(extents), shared[0]
    if threads < 1:
        return None
    return occupancy(
        arch,
        threads_per_block=threads,
        registers=image.resources.registers,
        shared_static=image.resources.shared or 0,
        shared_dynamic=dynamic,
    )


def _numbers(expressions: tuple[str, ...], variant: VariantInfo) -> tuple[int, ...]:
    """Return the values of expressions over the axes; empty if one needs an argument."""
    values = []
    for text in expressions:
        try:
            value = parse(text).evaluate(dict(variant.axes))
        except ExpressionError:
            return ()
        if not isinstance(value, int) or value < 0:
            return ()
        values.append(value)
    return tuple(values)
