"""The kernels of `kernels.py` in Triton."""

import triton
import triton.language as tl


def add(z, x, y, rows, columns, sz0, sz1, sx0, sx1, sy0, sy1, R: tl.constexpr, C: tl.constexpr):
    """Add two matrices of any strides."""
    i = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    j = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    inside = (i < rows) & (j < columns)
    one = tl.load(x + i * sx0 + j * sx1, inside)
    two = tl.load(y + i * sy0 + j * sy1, inside)
    tl.store(z + i * sz0 + j * sz1, one + two, inside)


def add_rows(z, x, y, rows, columns, R: tl.constexpr, C: tl.constexpr):
    """Add two contiguous matrices."""
    i = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    j = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    inside = (i < rows) & (j < columns)
    at = i * columns + j
    tl.store(z + at, tl.load(x + at, inside) + tl.load(y + at, inside), inside)


def scale(y, x, alpha, rows, columns, R: tl.constexpr, C: tl.constexpr):
    """Multiply a matrix by a number."""
    i = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    j = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    inside = (i < rows) & (j < columns)
    at = i * columns + j
    tl.store(y + at, tl.load(x + at, inside) * alpha, inside)


def shift(y, x, w, rows, columns, R: tl.constexpr, C: tl.constexpr):
    """Add a vector to every row."""
    i = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    j = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    inside = (i < rows) & (j < columns)
    at = i * columns + j
    tl.store(y + at, tl.load(x + at, inside) + tl.load(w + j, j < columns), inside)


def gate(z, x, y, alpha, rows, columns, R: tl.constexpr, C: tl.constexpr):
    """Multiply two matrices element by element, and by a number."""
    i = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    j = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    inside = (i < rows) & (j < columns)
    at = i * columns + j
    tl.store(z + at, tl.load(x + at, inside) * tl.load(y + at, inside) * alpha, inside)


def vector_add(z, x, y, n, B: tl.constexpr):
    """Add two vectors."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(z + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


def compiled(function):
    """A launcher with a cache of its own."""
    return triton.jit(function)
