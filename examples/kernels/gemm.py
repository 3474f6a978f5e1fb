"""Matrix products: f16, bf16, f8 in, f32 accumulators; tiles are numbered down strips, so that
neighbours in time share what they read.
"""

import tilec.lang as tl

T = tl.dtype("T")
OUT = tl.dtype("OUT")
BM = tl.size("BM")
BN = tl.size("BN")
STRIP = 8


@tl.kernel
@tl.preconditions("dim(a, 1) == dim(b, 0)", "dim(c, 0) == dim(a, 0)", "dim(c, 1) == dim(b, 1)")
def gemm(
    c: tl.MappedMut[T, (BM, BN), STRIP], a: tl.Ref[T, 2], b: tl.Ref[T, 2], BK: tl.Const[int]
) -> None:
    """c = a @ b, whatever the number of blocks: as many as tiles, or as many as run at once."""
    for tile in c.tiles:
        at = c.place(tile)
        m, n = at.index
        acc = tl.zeros((BM, BN), tl.float32)
        # Beyond the end of k both factors are zero, so that a tail adds nothing.
        for k in range(a.num_tiles(1, BK)):
            acc = tl.mma(a.load_tile((m, k), (BM, BK)), b.load_tile((k, n), (BK, BN)), acc)
        c.store(at, acc.astype(T))


@tl.kernel
@tl.preconditions("dim(a, 1) == dim(b, 1)", "dim(c, 0) == dim(a, 0)", "dim(c, 1) == dim(b, 0)")
def linear(
    c: tl.MappedMut[OUT, (BM, BN), STRIP],
    a: tl.Ref[T, 2],
    b: tl.Ref[T, 2],
    BK: tl.Const[int],
    FAST: tl.Const[bool] = False,
) -> None:
    """c = a @ b.T, for weights as layers keep them; f8 tensor cores want both factors along k,
    which this is.

    FAST adds up f8 products in less than f32, as the tensor cores do on their own.
    """
    for tile in c.tiles:
        at = c.place(tile)
        m, n = at.index
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(a.num_tiles(1, BK)):
            right = tl.transpose(b.load_tile((n, k), (BN, BK)))
            acc = tl.mma(a.load_tile((m, k), (BM, BK)), right, acc, use_fast_acc=FAST)
        c.store(at, acc.astype(OUT))


@tl.kernel
@tl.preconditions(
    "dim(a, 2) == dim(b, 1)",
    "dim(a, 0) == dim(c, 0)",
    "dim(b, 0) == dim(c, 0)",
    "dim(c, 1) == dim(a, 1)",
    "dim(c, 2) == dim(b, 2)",
)
def batched_gemm(
    c: tl.MappedMut[T, (1, BM, BN), STRIP], a: tl.Ref[T, 3], b: tl.Ref[T, 3], BK: tl.Const[int]
) -> None:
    """c[i] = a[i] @ b[i], one matrix after another."""
    for tile in c.tiles:
        at = c.place(tile)
        i, m, n = at.index
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(a.num_tiles(2, BK)):
            left = tl.reshape(a.load_tile((i, m, k), (1, BM, BK)), (BM, BK))
            acc = tl.mma(left, tl.reshape(b.load_tile((i, k, n), (1, BK, BN)), (BK, BN)), acc)
        c.store(at, tl.reshape(acc, (1, BM, BN)).astype(T))


@tl.kernel
@tl.preconditions(
    "dim(a, 1) == dim(b, 1)",
    "dim(c, 0) == dim(a, 0)",
    "dim(c, 1) == dim(b, 2)",
    "dim(group, 0) == cdiv(dim(c, 0), BM)",
)
def grouped_gemm(
    c: tl.MappedMut[T, (BM, BN), STRIP],
    a: tl.Ref[T, 2],
    b: tl.Ref[T, 3],
    group: tl.Ref[tl.int32, 1],
    BK: tl.Const[int],
) -> None:
    """c = a @ b[g], with a g of its own for each BM rows: group[m], as tokens are sorted by expert
    and padded to whole tiles.
    """
    for tile in c.tiles:
        at = c.place(tile)
        m, n = at.index
        # A number that is no group's is taken for the nearest one: whatever `group` holds, nothing
        # outside of b is read.
        g = b.nearest(group.load_tile((m,), (1,)).item(), 0, 1)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(a.num_tiles(1, BK)):
            acc = tl.mma(
                a.load_tile((m, k), (BM, BK)),
                tl.reshape(b.load_tile((g, k, n), (1, BK, BN)), (BK, BN)),
                acc,
            )
        c.store(at, acc.astype(T))
