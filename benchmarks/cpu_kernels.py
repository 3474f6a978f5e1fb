"""The tile kernels of cpu_interpreter.py."""

from __future__ import annotations

import cuda.tile as ct


@ct.kernel
def vector_add(x, y, z, size: ct.Constant[int]):
    """One tile of a sum."""
    i = ct.bid(0)
    ct.store(z, (i,), ct.load(x, (i,), (size,)) + ct.load(y, (i,), (size,)))


@ct.kernel
def softmax(x, y, columns: ct.Constant[int]):
    """One row."""
    row = ct.bid(0)
    values = ct.load(x, (row, 0), (1, columns))
    powers = ct.exp(values - ct.max(values, 1, keepdims=True))
    ct.store(y, (row, 0), powers / ct.sum(powers, 1, keepdims=True))


@ct.kernel
def matmul(a, b, c, tm: ct.Constant[int], tn: ct.Constant[int], tk: ct.Constant[int]):
    """One tile of a product."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.num_tiles(a, 1, (tm, tk))):
        total = ct.mma(ct.load(a, (i, k), (tm, tk)), ct.load(b, (k, j), (tk, tn)), total)
    ct.store(c, (i, j), total)
