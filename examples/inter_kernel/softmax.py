"""The tile half: softmax over the rows of a matrix, a block for several rows."""

import tilec.lang as tl

ROWS = tl.size("ROWS")
COLS = tl.size("COLS")


@tl.kernel
@tl.preconditions("y.shape == x.shape", "dim(x, 1) <= COLS")
def row_softmax(y: tl.Mut[tl.float32, (ROWS, COLS)], x: tl.Ref[tl.float32, 2]) -> None:
    """Softmax along the last axis, for rows of at most COLS elements."""
    # Padding of minus infinity adds nothing to the sum and never is the maximum.
    logits = x.load_tile_like(y, padding=tl.Padding.NEG_INF)
    weight = tl.exp(logits - tl.max(logits, 1, keepdims=True))
    y.store(weight / tl.sum(weight, 1, keepdims=True))
