"""A kernel in Triton, for tests that compile it where they run."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def scale(x, y, count, factor, block: tl.constexpr):
    """y = factor * x."""
    place = tl.program_id(0) * block + tl.arange(0, block)
    inside = place < count
    tl.store(y + place, factor * tl.load(x + place, mask=inside), mask=inside)
