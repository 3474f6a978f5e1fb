"""Root mean square normalisation of rows of any length: a loop over chunks of COLS columns, once to
measure, once to scale.
"""

import cuda.tile as ct


@ct.kernel
def rms_norm(y, x, weight, eps, ROWS: ct.Constant[int], COLS: ct.Constant[int]):
    """Divide every row by its root mean square, then multiply by the weight of its column."""
    row = ct.bid(0)
    chunks = ct.num_tiles(x, axis=1, shape=(ROWS, COLS))
    # Sums run in f32 whatever the inputs are, one partial sum per lane, reduced once at the end.
    squares = ct.zeros((ROWS, COLS), ct.float32)
    for j in range(chunks):
        t = ct.load(x, (row, j), (ROWS, COLS), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
        squares = squares + t * t
    mean = ct.sum(squares, 1, keepdims=True) / x.shape[1]
    scale = ct.rsqrt(mean + eps)
    for j in range(chunks):
        t = ct.load(x, (row, j), (ROWS, COLS)).astype(ct.float32)
        w = ct.load(weight, (j,), (COLS,)).astype(ct.float32)
        ct.store(y, (row, j), (t * scale * w).astype(y.dtype))
