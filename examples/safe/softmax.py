"""Softmax over the rows of a matrix in the safe language; see ../tile/softmax.py for why a block
takes several rows.
"""

import tilec.lang as tl

ROWS = tl.size("ROWS")
COLS = tl.size("COLS")
LOG2_E = 1.4426950408889634


@tl.kernel(occupancy=4)
@tl.preconditions("y.shape == x.shape", "dim(x, 1) <= COLS")
def safe_softmax(y: tl.Mut[tl.float32, (ROWS, COLS)], x: tl.Ref[tl.float32, 2]) -> None:
    """Softmax along the last axis, for rows of at most COLS elements."""
    # Padding of minus infinity adds nothing to the sum and never is the maximum.
    logits = x.load_tile_like(y, padding=tl.Padding.NEG_INF)
    peak = tl.max(logits, 1, keepdims=True)
    weight = tl.exp2((logits - peak) * LOG2_E, flush_to_zero=True)
    y.store(weight * (1.0 / tl.sum(weight, 1, keepdims=True)))
