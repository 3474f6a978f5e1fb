"""Running values along rows: a linear recurrence by an operator of two values, and how often each number occurs."""

import triton
import triton.language as tl


@triton.jit
def both(a_left, b_left, a_right, b_right):
    """Two steps y -> a y + b as one."""
    return a_left * a_right, a_right * b_left + b_right


@triton.jit
def recurrence(a_ptr, b_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    """y[t] = a[t] y[t - 1] + b[t]."""
    row, t = tl.program_id(0), tl.arange(0, BLOCK)
    mask = t < cols
    a = tl.load(a_ptr + row * cols + t, mask=mask, other=1.0)
    b = tl.load(b_ptr + row * cols + t, mask=mask, other=0.0)
    _, y = tl.associative_scan((a, b), 0, both)
    tl.store(y_ptr + row * cols + t, y, mask=mask)


@triton.jit
def bins(x_ptr, counts_ptr, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    """counts += how often each of 0 .. BINS - 1 is in x."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    found = tl.histogram(tl.load(x_ptr + offsets, mask=mask, other=0), BINS, mask=mask)
    tl.atomic_add(counts_ptr + tl.arange(0, BINS), found)
