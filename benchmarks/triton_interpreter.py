"""The same kernels in Triton, for cpu_interpreter.py: reads the name of a case from each line, runs
it, prints the seconds it took.

Runs in a Python that has triton and torch, with TRITON_INTERPRET=1.
"""

from __future__ import annotations

import sys
import time

import torch
import triton
import triton.language as tl


@triton.jit
def vector_add(x, y, z, n, size: tl.constexpr):
    """One tile of a sum."""
    at = tl.program_id(0) * size + tl.arange(0, size)
    tl.store(z + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def softmax(x, y, stride, n, columns: tl.constexpr):
    """One row."""
    row = tl.program_id(0)
    at = tl.arange(0, columns)
    values = tl.load(x + row * stride + at, mask=at < n, other=float("-inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * stride + at, powers / tl.sum(powers, axis=0), mask=at < n)


@triton.jit
def matmul(a, b, c, n, k, tm: tl.constexpr, tn: tl.constexpr, tk: tl.constexpr):
    """One tile of a product."""
    rows = tl.program_id(0) * tm + tl.arange(0, tm)
    columns = tl.program_id(1) * tn + tl.arange(0, tn)
    total = tl.zeros((tm, tn), dtype=tl.float32)
    for start in range(0, k, tk):
        inner = start + tl.arange(0, tk)
        left = tl.load(a + rows[:, None] * k + inner[None, :])
        right = tl.load(b + inner[:, None] * n + columns[None, :])
        total += tl.dot(left, right)
    tl.store(c + rows[:, None] * n + columns[None, :], total)


def main() -> None:
    """Answer until the input ends."""
    torch.manual_seed(0)
    n = 1 << 20
    x, y, z = torch.rand(n), torch.rand(n), torch.empty(n)
    r, s = torch.rand(4096, 1024), torch.empty(4096, 1024)
    a, b, c = torch.rand(512, 512), torch.rand(512, 512), torch.empty(512, 512)
    cases = {
        "vector add": lambda: vector_add[(n // 1024,)](x, y, z, n, size=1024),
        "softmax": lambda: softmax[(4096,)](r, s, 1024, 1024, columns=1024),
        "matmul": lambda: matmul[(8, 8)](a, b, c, 512, 512, tm=64, tn=64, tk=32),
    }
    right = {
        "vector add": lambda: torch.allclose(z, x + y),
        "softmax": lambda: torch.allclose(s, torch.softmax(r, 1), atol=1e-6),
        "matmul": lambda: torch.allclose(c, a @ b, rtol=1e-4),
    }
    for line in sys.stdin:
        name = line.strip()
        for result in (z, s, c):
            result.fill_(float("nan"))
        start = time.perf_counter()
        cases[name]()
        seconds = time.perf_counter() - start
        if not right[name]():
            sys.exit(f"{name}: wrong result")
        print(seconds, flush=True)


main()
