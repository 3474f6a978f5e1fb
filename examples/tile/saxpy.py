"""y = alpha * x + y, in place: a scalar argument, and a tensor that is read and written."""

import cuda.tile as ct


@ct.kernel
def saxpy(y, x, alpha, TILE: ct.Constant[int]):
    """Add alpha times x to y, in place."""
    i = ct.bid(0)
    scaled = ct.load(x, (i,), (TILE,)) * alpha
    ct.store(y, (i,), scaled + ct.load(y, (i,), (TILE,)))
