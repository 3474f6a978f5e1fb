"""Tiles by tensor descriptors: made on the host (a matrix product), and made inside of a kernel,
which keeps them in scratch memory.
"""

import triton
import triton.language as tl


@triton.jit
def described_matmul_kernel(
    a_desc,
    b_desc,
    c_desc,
    k_size,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    SPECIALIZE: tl.constexpr,
):
    """C = A B, tile by tile; what a tile has outside of its matrix reads as zero and is not
    written.

    SPECIALIZE gives loads and products warps of their own.
    """
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, k_size, BK, warp_specialize=SPECIALIZE):
        total = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), total)
    c_desc.store([m, n], total.to(c_desc.dtype))


@triton.jit
def double_kernel(y_ptr, x_ptr, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    """y = 2 x."""
    x_desc = tl.make_tensor_descriptor(x_ptr, [rows, columns], [columns, 1], [BM, BN])
    y_desc = tl.make_tensor_descriptor(y_ptr, [rows, columns], [columns, 1], [BM, BN])
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    y_desc.store([m, n], x_desc.load([m, n]) * 2.0)
