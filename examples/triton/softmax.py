"""Softmax over the rows of a matrix in Triton, each row held in registers from the load to the
store.
"""

import triton
import triton.language as tl


@triton.jit
def softmax_kernel(y_ptr, x_ptr, rows, cols, x_stride, y_stride, COLS: tl.constexpr):
    """Softmax along the last axis, for rows of at most COLS elements; programs take rows in turn."""
    offsets = tl.arange(0, COLS)
    inside = offsets < cols
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        logits = tl.load(
            x_ptr + row.to(tl.int64) * x_stride + offsets, mask=inside, other=-float("inf")
        ).to(tl.float32)
        weight = tl.exp(logits - tl.max(logits, axis=0))
        y = weight / tl.sum(weight, axis=0)
        tl.store(
            y_ptr + row.to(tl.int64) * y_stride + offsets, y.to(y_ptr.dtype.element_ty), mask=inside
        )
