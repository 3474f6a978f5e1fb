"""Addition of vectors in Triton, one block of BLOCK elements per program."""

import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    """z = x + y."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(
        z_ptr + offsets,
        tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside),
        mask=inside,
    )
