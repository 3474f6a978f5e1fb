"""A fused softmax over rows: each program takes rows in turn, and holds one between load and store."""

import triton
import triton.language as tl


@triton.jit
def fused_softmax(out_ptr, in_ptr, in_stride, out_stride, rows, cols, BLOCK: tl.constexpr, num_stages: tl.constexpr):
    start, step = tl.program_id(0), tl.num_programs(0)
    for row in tl.range(start, rows, step, num_stages=num_stages):
        columns = tl.arange(0, BLOCK)
        mask = columns < cols
        x = tl.load(in_ptr + row * in_stride + columns, mask=mask, other=-float("inf"))
        above = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * out_stride + columns, above / tl.sum(above, axis=0), mask=mask)
