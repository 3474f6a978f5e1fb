"""A matrix product in Triton: tiles of C in grouped order, so that programs that run together share
rows of A and columns of B in L2.
"""

import triton
import triton.language as tl


@triton.jit
def tile_of(program, m, n, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """Row and column of a program's tile: down the rows of a group first."""
    across = tl.cdiv(n, BN)
    group = program // (GROUP * across)
    first = group * GROUP
    height = min(tl.cdiv(m, BM) - first, GROUP)
    inside = program % (GROUP * across)
    return first + inside % height, inside // height


@triton.jit
def matmul_kernel(
    a,
    b,
    c,
    m,
    n,
    k,
    a_stride,
    b_stride,
    c_stride,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
):
    """c = a @ b, accumulated in f32."""
    row, column = tile_of(tl.program_id(0), m, n, BM, BN, GROUP)
    # Rows and columns beyond the end wrap around: what is computed of them is not stored.
    rows = (row * BM + tl.arange(0, BM)) % m
    columns = (column * BN + tl.arange(0, BN)) % n
    depth = tl.arange(0, BK)
    a_ptrs = a + rows[:, None].to(tl.int64) * a_stride + depth[None, :]
    b_ptrs = b + depth[:, None].to(tl.int64) * b_stride + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        left = tl.load(a_ptrs, mask=depth[None, :] < k - start, other=0.0)
        right = tl.load(b_ptrs, mask=depth[:, None] < k - start, other=0.0)
        total = tl.dot(left, right, total)
        a_ptrs += BK
        b_ptrs += BK * b_stride
    rows = row * BM + tl.arange(0, BM)
    columns = column * BN + tl.arange(0, BN)
    c_ptrs = c + rows[:, None].to(tl.int64) * c_stride + columns[None, :]
    tl.store(
        c_ptrs, total.to(c.dtype.element_ty), mask=(rows[:, None] < m) & (columns[None, :] < n)
    )
