"""What callers say of a launch's grid, besides the kernel's own expressions: by the partitions that
it writes, or outright.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from tilec_runtime.device.seam_types import Dim3
from tilec_runtime.errors import LaunchLimitError
from tilec_runtime.values import value_class

# Tiles of an output that blocks share and the blocks, together: kernels number both in 32 bits.
MOST_TILES = (1 << 31) - 1


class GridRule(enum.Enum):
    """How a launch's grid has to agree with what a caller says."""

    EXACTLY = "exactly"
    AT_MOST = "at most"
    INSTEAD = "instead of the kernel's own"


@value_class(frozen=True, kw_only=True, slots=True)
class GridWish:
    """A grid that a caller asks for, and who says so (`partition z`)."""

    grid: Dim3
    rule: GridRule
    source: str


def settle_grid(kernel: str, own: Dim3, wishes: Sequence[GridWish]) -> Dim3:
    """The grid of a launch.

    Args:
        kernel: for messages.
        own: what the kernel's expressions give.
        wishes: of the caller. Those that stand for the kernel's own grid come first.

    Raises:
        LaunchLimitError: they do not agree.
    """
    grid, source = own, "the kernel's own expressions give"
    instead = [wish for wish in wishes if wish.rule is GridRule.INSTEAD]
    # Callers are held against each other first: a kernel's expressions follow from the same
    # tensors, and say less of what is wrong.
    said = instead or [wish for wish in wishes if wish.rule is GridRule.EXACTLY]
    for wish in said[1:]:
        if wish.grid != said[0].grid:
            raise _disagree(kernel, said[0].grid, f"{said[0].source} gives", wish)
    if instead:
        grid, source = instead[0].grid, f"{instead[0].source} gives"
    for wish in wishes:
        if wish.rule is GridRule.EXACTLY and wish.grid != grid:
            raise _disagree(kernel, grid, source, wish)
        if wish.rule is GridRule.AT_MOST and any(
            has > most for has, most in zip(grid, wish.grid, strict=True)
        ):
            raise _disagree(kernel, grid, source, wish)
    return grid


def _disagree(kernel: str, grid: Dim3, source: str, wish: GridWish) -> LaunchLimitError:
    most = " at most" if wish.rule is GridRule.AT_MOST else ""
    return LaunchLimitError(
        f"{kernel}: {source} the launch grid {grid}, and {wish.source} gives {wish.grid}{most}",
        cause="the tensor is cut into other tiles than the kernel's blocks write",
        fix="partition by the kernel's tile, or choose the variant of that tile",
        kernel=kernel,
    )
