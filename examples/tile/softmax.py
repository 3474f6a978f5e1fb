"""Softmax over the rows of a matrix, each row held in registers from the load to the store.

A block takes ROWS rows at once: one row of a thousand floats is too little work to keep enough
memory traffic in flight.
"""

import cuda.tile as ct

LOG2_E = 1.4426950408889634


@ct.kernel
def softmax(y, x, ROWS: ct.Constant[int], COLS: ct.Constant[int]):
    """Softmax along the last axis, for rows of at most COLS elements."""
    row = ct.bid(0)
    # Padding of minus infinity adds nothing to the sum and never is the maximum.
    logits = ct.load(x, (row, 0), (ROWS, COLS), padding_mode=ct.PaddingMode.NEG_INF).astype(
        ct.float32
    )
    peak = ct.max(logits, 1, keepdims=True)
    # exp(t) is exp2(t * log2 e); the hardware has exp2.
    weight = ct.exp2((logits - peak) * LOG2_E, flush_to_zero=True)
    inverse = 1.0 / ct.sum(weight, 1, keepdims=True)
    ct.store(y, (row, 0), (weight * inverse).astype(y.dtype))
