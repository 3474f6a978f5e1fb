"""Small tile kernels for the benchmarks of launches: their work is less than what it costs to
launch them.
"""

import cuda.tile as ct


@ct.kernel
def add(z, x, y, R: ct.Constant[int], C: ct.Constant[int]):
    """Add two matrices."""
    i, j = ct.bid(0), ct.bid(1)
    ct.store(z, (i, j), ct.load(x, (i, j), (R, C)) + ct.load(y, (i, j), (R, C)))


@ct.kernel
def scale(y, x, alpha, R: ct.Constant[int], C: ct.Constant[int]):
    """Multiply a matrix by a number."""
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, (i, j), ct.load(x, (i, j), (R, C)) * alpha)


@ct.kernel
def shift(y, x, w, R: ct.Constant[int], C: ct.Constant[int]):
    """Add a vector to every row."""
    i, j = ct.bid(0), ct.bid(1)
    row = ct.reshape(ct.load(w, (j,), (C,)), (1, C))
    ct.store(y, (i, j), ct.load(x, (i, j), (R, C)) + row)


@ct.kernel
def gate(z, x, y, alpha, R: ct.Constant[int], C: ct.Constant[int]):
    """Multiply two matrices element by element, and by a number."""
    i, j = ct.bid(0), ct.bid(1)
    ct.store(z, (i, j), ct.load(x, (i, j), (R, C)) * ct.load(y, (i, j), (R, C)) * alpha)
