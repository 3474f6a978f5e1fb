"""SIMT kernels as numba's users write them: with a signature, with generators of random numbers."""

from numba import cuda, float32
from numba.cuda.random import xoroshiro128p_type, xoroshiro128p_uniform_float32

from tilec import simt


@cuda.jit("void(float32[:], float32[::1], float32)")
def scale_signed(y, x, a):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i]


@cuda.jit
def uniform(y: simt.Mut[float32], states: simt.Mut[xoroshiro128p_type]):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = xoroshiro128p_uniform_float32(states, i)
