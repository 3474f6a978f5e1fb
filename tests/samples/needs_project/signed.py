"""A SIMT kernel with a signature, as numba's users write it."""

from numba import cuda


@cuda.jit("void(float32[:], float32[::1], float32)")
def scale_signed(y, x, a):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i]
