"""c = a @ b for row-major matrices: f16 or bf16 in, f32 accumulators, persistent blocks that walk
the output in grouped order.
"""

import cuda.tile as ct

GROUP = 8


def place(tile, rows, columns):
    """Row and column of an output tile in grouped order.

    Tiles are numbered down strips of GROUP tile rows: blocks that run together then share rows of
    `a` and columns of `b` in the L2 cache.
    """
    strip = tile // (GROUP * columns)
    first = strip * GROUP
    height = min(rows - first, GROUP)
    inside = tile % (GROUP * columns)
    return first + inside % height, inside // height


@ct.kernel
def gemm(c, a, b, BM: ct.Constant[int], BN: ct.Constant[int], BK: ct.Constant[int]):
    """Multiply two matrices."""
    rows = ct.num_tiles(c, axis=0, shape=(BM, BN))
    columns = ct.num_tiles(c, axis=1, shape=(BM, BN))
    steps = ct.num_tiles(a, axis=1, shape=(BM, BK))
    for tile in range(ct.bid(0), rows * columns, ct.num_blocks(0)):
        m, n = place(tile, rows, columns)
        acc = ct.zeros((BM, BN), ct.float32)
        for k in range(steps):
            # Beyond the end of k both factors are zero, so that a tail adds nothing.
            x = ct.load(a, (m, k), (BM, BK), padding_mode=ct.PaddingMode.ZERO)
            y = ct.load(b, (k, n), (BK, BN), padding_mode=ct.PaddingMode.ZERO)
            acc = ct.mma(x, y, acc)
        ct.store(c, (m, n), acc.astype(c.dtype))
