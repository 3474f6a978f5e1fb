"""Softmax over rows, for tuning: nothing is fixed that the matrix can vary."""

import tilec.lang as tl

ROWS = tl.size("ROWS")
COLS = tl.size("COLS")


@tl.kernel
@tl.preconditions("y.shape == x.shape", "dim(x, 1) <= COLS")
def softmax(y: tl.Mut[tl.float32, (ROWS, COLS)], x: tl.Ref[tl.float32, 2]) -> None:
    """Softmax along the last axis, for rows of at most COLS elements."""
    logits = x.load_tile_like(y, padding=tl.Padding.NEG_INF)
    peak = tl.max(logits, 1, keepdims=True)
    weight = tl.exp(logits - peak)
    y.store(weight / tl.sum(weight, 1, keepdims=True))
