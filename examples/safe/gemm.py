"""c = a @ b in the safe language: persistent blocks, each of which walks the tiles of c that it
owns, in strips of STRIP tile rows.
"""

import tilec.lang as tl

T = tl.dtype("T")
BM = tl.size("BM")
BN = tl.size("BN")
STRIP = 8


@tl.kernel
@tl.preconditions("dim(a, 1) == dim(b, 0)", "dim(c, 0) == dim(a, 0)", "dim(c, 1) == dim(b, 1)")
def safe_gemm(
    c: tl.MappedMut[T, (BM, BN), STRIP], a: tl.Ref[T, 2], b: tl.Ref[T, 2], BK: tl.Const[int]
) -> None:
    """Multiply two matrices."""
    for tile in c.tiles:
        at = c.place(tile)
        m, n = at.index
        acc = tl.zeros((BM, BN), tl.float32)
        # Beyond the end of k both factors are zero, so that a tail adds nothing.
        for k in range(a.num_tiles(1, BK)):
            acc = tl.mma(a.load_tile((m, k), (BM, BK)), b.load_tile((k, n), (BK, BN)), acc)
        c.store(at, acc.astype(T))
