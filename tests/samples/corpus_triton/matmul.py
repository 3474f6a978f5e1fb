"""Many products of matrices in one launch."""

import triton
import triton.language as tl


@triton.jit
def one_tile(a_ptr, b_ptr, c_ptr, tile_m, tile_n, m, n, k, lda, ldb, ldc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One tile of a product."""
    rows, columns, depth = tile_m * BM + tl.arange(0, BM), tile_n * BN + tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        inside = start + depth < k
        a = tl.load(a_ptr + rows[:, None] * lda + (start + depth)[None, :], mask=(rows < m)[:, None] & inside[None, :], other=0.0)
        b = tl.load(b_ptr + (start + depth)[:, None] * ldb + columns[None, :], mask=inside[:, None] & (columns < n)[None, :], other=0.0)
        total = tl.dot(a, b, total)
    c_ptrs = c_ptr + rows[:, None] * ldc + columns[None, :]
    tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty), mask=(rows < m)[:, None] & (columns < n)[None, :])


@triton.jit
def grouped_matmul(
    a_ptr, b_ptr, c_ptr, sizes_ptr, room, groups, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Products of several sizes (m, n, k), each of whose matrices has room for as many elements."""
    tile = tl.program_id(0)
    before = 0
    for g in range(groups):
        m, n, k = tl.load(sizes_ptr + 3 * g), tl.load(sizes_ptr + 3 * g + 1), tl.load(sizes_ptr + 3 * g + 2)
        across = tl.cdiv(n, BN)
        tiles = tl.cdiv(m, BM) * across
        while tile >= before and tile < before + tiles:
            a, b, c = a_ptr + g * room, b_ptr + g * room, c_ptr + g * room
            own = tile - before
            one_tile(a, b, c, own // across, own % across, m, n, k, k, n, n, BM, BN, BK)
            tile += PROGRAMS
        before += tiles


@triton.jit
def grouped_by_address(
    a_addresses, b_addresses, c_addresses, sizes_ptr, lds_ptr, groups, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Products of several sizes, wherever they lie: tables of addresses, of sizes and of leading dimensions."""
    tile = tl.program_id(0)
    before = 0
    for g in range(groups):
        m, n, k = tl.load(sizes_ptr + 3 * g), tl.load(sizes_ptr + 3 * g + 1), tl.load(sizes_ptr + 3 * g + 2)
        across = tl.cdiv(n, BN)
        tiles = tl.cdiv(m, BM) * across
        while tile >= before and tile < before + tiles:
            a = tl.load(a_addresses + g).to(tl.pointer_type(tl.float16))
            b = tl.load(b_addresses + g).to(tl.pointer_type(tl.float16))
            c = tl.load(c_addresses + g).to(tl.pointer_type(tl.float16))
            lda, ldb, ldc = tl.load(lds_ptr + 3 * g), tl.load(lds_ptr + 3 * g + 1), tl.load(lds_ptr + 3 * g + 2)
            own = tile - before
            one_tile(a, b, c, own // across, own % across, m, n, k, lda, ldb, ldc, BM, BN, BK)
            tile += PROGRAMS
        before += tiles
