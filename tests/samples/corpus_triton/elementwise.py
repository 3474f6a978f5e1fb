"""Dropout with a seed, and a function of libdevice."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def seeded_dropout(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    """The same with a mask that nobody stores: numbers by seed and place."""
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.rand(seed, offsets) > p
    tl.store(out_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


@triton.jit
def arcsine(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = asin(x), by libdevice's."""
    offsets = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, libdevice.asin(tl.load(x_ptr + offsets, mask=mask, other=0.0)), mask=mask)
