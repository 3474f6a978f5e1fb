"""A Triton kernel as its authors write it, tuned by Triton's own decorators."""

import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 256}, num_warps=2),
        triton.Config({"BLOCK": 1024}, num_warps=8, num_stages=2),
    ],
    key=["n"],
)
@triton.heuristics({"HALVES": lambda args: args["BLOCK"] // 512, "EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def scale_tuned(
    y,
    x,
    n,
    BLOCK: tl.constexpr,
    HALVES: tl.constexpr,
    EVEN: tl.constexpr = False,
    ACTIVATION: tl.constexpr = "",
    BIAS: tl.constexpr = None,
):
    """y = act(2 * x + bias)"""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n) * 2
    if HALVES > 4:
        value = value * 0
    if BIAS is not None:
        value += BIAS
    if ACTIVATION == "relu":
        value = tl.maximum(value, 0)
    tl.store(y + at, value, mask=at < n)
