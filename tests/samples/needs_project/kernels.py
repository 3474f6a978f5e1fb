"""Tile kernels that need more of a manifest than examples do."""

import cuda.tile as ct


@ct.kernel
def scale_rows(
    y, x, N: ct.Constant[int], TILE: ct.Constant[int], EVEN: ct.Constant[bool], ROWS: ct.Constant[int]
):
    """y = N * x, in blocks that stay: each takes every so many rows."""
    for place in range(ct.bid(0), ct.cdiv(x.shape[0], ROWS), ct.num_blocks(0)):
        if EVEN:
            tile = ct.load(x, (place, 0), (ROWS, TILE))
        else:
            tile = ct.load(x, (place, 0), (ROWS, TILE), padding_mode=ct.PaddingMode.ZERO)
        ct.store(y, (place, 0), tile * N)


@ct.kernel
def take_rows(y, seen, x, ids, N: ct.Constant[int]):
    """y[i] = x[ids[i]]; seen[i] is scratch that nobody reads."""
    i = ct.bid(0)
    row = ct.load(ids, (i,), (1,)).item()
    ct.store(y, (i, 0), ct.load(x, (row, 0), (1, N)))
    ct.store(seen, (i,), ct.full((1,), row, dtype=ct.int32))


@ct.kernel
def double_rows(y, x, N: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(y, (i, 0), ct.load(x, (i, 0), (1, N)) * 2)


@ct.kernel
def grouped_gemm(c, a, b, G: ct.Constant[int], BM: ct.Constant[int], BK: ct.Constant[int]):
    """c[g] = a[g] @ b[g]; each group has a number of rows of its own."""
    for g in ct.static_iter(range(G)):
        if ct.bid(1) == g:
            left = ct.load(a[g], (ct.bid(0), 0), (BM, BK), padding_mode=ct.PaddingMode.ZERO)
            right = ct.load(b[g], (0, 0), (BK, BK))
            ct.store(c[g], (ct.bid(0), 0), ct.matmul(left, right))
