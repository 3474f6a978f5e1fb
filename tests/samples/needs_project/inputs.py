"""Inputs that no distribution makes."""

import numpy as np
from numba.cuda import random


def sorted_ids(shape, dtype, seed, x):
    """Rows of x in ascending order, some of them twice."""
    return np.sort(np.random.default_rng(seed).integers(0, len(x), shape)).astype(dtype)


def generators(shape, seed):
    """States of numba's generators, one for each thread."""
    states = np.zeros(shape[0], random.xoroshiro128p_dtype)
    for index in range(len(states)):
        random.init_xoroshiro128p_state(states, index, seed + index)
    return states
