"""NumPy references of the linked kernels."""

import math

import numpy as np


def gelu(x, bias):
    """Gelu of x + bias, in f64."""
    v = x.astype(np.float64) + bias
    return (0.5 * v * (1 + np.vectorize(math.erf)(v * math.sqrt(0.5)))).astype(np.float32)


def silu(x, bias):
    """Silu of x + bias, in f64."""
    v = x.astype(np.float64) + bias
    return (v / (1 + np.exp(-v))).astype(np.float32)
