"""Estimates by lot, with numba's own generator: a state of each thread, kept in arrays between launches or made anew."""

from numba import cuda, float32, int32, uint64
from numba.cuda.random import init_xoroshiro128p_state, xoroshiro128p_dtype, xoroshiro128p_normal_float32, xoroshiro128p_uniform_float32

from tilec import simt


@simt.kernel
def estimate_pi(hits: simt.Mut[int32], seed: uint64, samples: int32):
    """How many points of each thread lie in the quarter of a circle."""
    i = cuda.grid(1)
    if i < hits.size:
        state = cuda.local.array(1, xoroshiro128p_dtype)
        init_xoroshiro128p_state(state, 0, seed + uint64(i))
        inside = 0
        for _ in range(samples):
            x = xoroshiro128p_uniform_float32(state, 0)
            y = xoroshiro128p_uniform_float32(state, 0)
            if x * x + y * y <= float32(1):
                inside += 1
        hits[i] = inside


@simt.kernel
def walk(place: simt.Mut[float32], seed: uint64, steps: int32):
    """Steps of normal length from zero."""
    i = cuda.grid(1)
    if i < place.size:
        state = cuda.local.array(1, xoroshiro128p_dtype)
        init_xoroshiro128p_state(state, 0, seed + uint64(i))
        at = float32(0)
        for _ in range(steps):
            at += xoroshiro128p_normal_float32(state, 0)
        place[i] = at
