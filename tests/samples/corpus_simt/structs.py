"""Arrays of structs: the states of numba's own generators, and particles on a grid."""

import numpy as np
from numba import cuda, float32
from numba.cuda.random import xoroshiro128p_type, xoroshiro128p_uniform_float32

from tilec import simt

PARTICLE = np.dtype([("alive", np.int8), ("at", np.float64), ("speed", np.float32), ("steps", np.int32)], align=True)


@simt.kernel
def draw(y: simt.Mut[float32, 2], states: simt.Mut[xoroshiro128p_type]):
    """A column of random numbers from each thread's generator, whose state the launch leaves behind."""
    i = cuda.grid(1)
    if i < y.shape[1]:
        for row in range(y.shape[0]):
            y[row, i] = xoroshiro128p_uniform_float32(states, i)


@simt.kernel
def drift(particles: simt.Mut[PARTICLE, 2], dt: float32):
    """One step of every particle that is alive."""
    row, column = cuda.grid(2)
    if row < particles.shape[0] and column < particles.shape[1]:
        particle = particles[row, column]
        if particle.alive != 0:
            particle.at += particle.speed * dt
            particle.steps += 1
