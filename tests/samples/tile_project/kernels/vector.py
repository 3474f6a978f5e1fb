import cuda.tile as ct

from kernels.helpers import scaled
from lib.blocks import BLOCK

ConstInt = ct.Constant[int]


@ct.kernel
def add(a, b, c, TILE: ConstInt):
    """c = a + b, one tile per block."""
    i = ct.bid(0)
    x = ct.load(a, (i,), (TILE,))
    y = ct.load(b, (i,), (TILE,))
    ct.store(c, (i,), x + y)


@ct.kernel(occupancy=2)
def saxpy(
    x,
    y,
    out,
    alpha,  # a scalar
    TILE: ct.Constant[int] = BLOCK,
):
    i = ct.bid(0)
    tile = scaled(ct.load(x, (i,), (TILE,)), alpha)
    total = tile + ct.load(y, (i,), (TILE,))
    ct.store(out, (i,), total.astype(out.dtype))


@ct.kernel
def wide(x: ct.IndexedWithInt64, n: ct.ScalarInt64, out: ct.IndexedWithInt64, TILE: ConstInt):
    i = ct.bid(0)
    ct.store(out, (i,), ct.load(x, (i,), (TILE,)) + ct.astype(n, ct.float32))
