"""Layer normalisation of rows of at most COLS elements, with the variance taken about the mean (no
cancellation).
"""

import cuda.tile as ct


@ct.kernel
def layer_norm(y, x, weight, bias, eps, ROWS: ct.Constant[int], COLS: ct.Constant[int]):
    """Normalise every row to mean 0 and variance 1, then scale and shift each column."""
    row = ct.bid(0)
    length = x.shape[1]
    t = ct.load(x, (row, 0), (ROWS, COLS), padding_mode=ct.PaddingMode.ZERO).astype(ct.float32)
    mean = ct.sum(t, 1, keepdims=True) / length
    # Columns beyond the row's end were loaded as zero: they must not count as distance from the
    # mean.
    inside = ct.arange(COLS, dtype=ct.int32) < length
    centred = ct.where(ct.reshape(inside, (1, COLS)), t - mean, 0.0)
    variance = ct.sum(centred * centred, 1, keepdims=True) / length
    w = ct.load(weight, (0,), (COLS,)).astype(ct.float32)
    b = ct.load(bias, (0,), (COLS,)).astype(ct.float32)
    ct.store(y, (row, 0), (centred * ct.rsqrt(variance + eps) * w + b).astype(y.dtype))
