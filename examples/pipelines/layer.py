"""The tile kernel: one layer of a network."""

import tilec.lang as tl

BM, BN = tl.size("BM"), tl.size("BN")


@tl.kernel
@tl.preconditions("dim(x, 1) == dim(w, 0)", "dim(y, 0) == dim(x, 0)", "dim(y, 1) == dim(w, 1)")
def layer(
    y: tl.Mut[tl.float32, (BM, BN)],
    x: tl.Ref[tl.float32, 2],
    w: tl.Ref[tl.float32, 2],
    BK: tl.Const[int],
) -> None:
    """y = relu(x @ w)."""
    m, n = y.index
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(x.num_tiles(1, BK)):
        acc = tl.mma(x.load_tile((m, k), (BM, BK)), w.load_tile((k, n), (BK, BN)), acc)
    y.store(tl.maximum(acc, 0.0))
