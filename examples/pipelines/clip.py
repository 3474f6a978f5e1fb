"""The SIMT kernel: every thread looks at its own element."""

from numba import cuda, float32

from tilec import simt


@simt.kernel
def clip(y: simt.Mut[float32, 2], x: simt.Ref[float32, 2], most: float32):
    """y = x, but for elements above the most, which become that."""
    i, j = cuda.grid(2)
    if i < y.shape[0] and j < y.shape[1]:
        y[i, j] = min(x[i, j], most)
