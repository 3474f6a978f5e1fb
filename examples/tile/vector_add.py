"""z = x + y: the smallest tile kernel. Each block adds one tile of TILE elements."""

import cuda.tile as ct


@ct.kernel
def vector_add(z, x, y, TILE: ct.Constant[int]):
    """Add two vectors element by element."""
    i = ct.bid(0)
    # The last tile may reach beyond the end: what is loaded there is undetermined, and is not
    # stored.
    a = ct.load(x, (i,), (TILE,))
    b = ct.load(y, (i,), (TILE,))
    ct.store(z, (i,), a + b)
