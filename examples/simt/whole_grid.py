"""What a whole grid does together, and what one thread does alone: a diffusion with a barrier per
step, and a Monte Carlo estimate.
"""

from numba import cuda, float32, int32, uint32, uint64

from tilec import simt

SPAN = float32(1.0 / 4294967296.0)


@cuda.jit
def diffuse(u, v, steps, rate):
    """Steps of u += rate (left - 2 u + right); the result is in u where steps are even. Plain
    numba: the manifest says what it takes.
    """
    grid = cuda.cg.this_grid()
    first, stride = cuda.grid(1), cuda.gridsize(1)
    for step in range(steps):
        for i in range(first, u.size, stride):
            left, right = max(i - 1, 0), min(i + 1, u.size - 1)
            if step % 2 == 0:
                v[i] = u[i] + rate * (u[left] - 2 * u[i] + u[right])
            else:
                u[i] = v[i] + rate * (v[left] - 2 * v[i] + v[right])
        grid.sync()


@cuda.jit(device=True)
def step(state):
    """One step of a 64-bit linear congruential generator."""
    return state * uint64(6364136223846793005) + uint64(1442695040888963407)


@simt.kernel
def count_inside(hits: simt.Mut[int32], seed: uint64, samples: int32):
    """How many of each thread's points lie in the quarter of a circle."""
    thread = cuda.grid(1)
    if thread < hits.size:
        state = step(seed + uint64(thread))
        inside = 0
        for _ in range(samples):
            state = step(state)
            x = float32(uint32(state >> uint64(32))) * SPAN
            state = step(state)
            y = float32(uint32(state >> uint64(32))) * SPAN
            inside += x * x + y * y < float32(1)
        hits[thread] = inside
