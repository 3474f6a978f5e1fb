"""What the kernels compute."""

import numpy as np


def add(x, y):
    return x + y


def gemm(a, b):
    return a.astype(np.float32) @ b.astype(np.float32)


def shifted(x, by):
    z = np.full_like(x, -np.inf)
    z[128 * by :] = 2 * x[: -128 * by]
    return z


def scale_in_place(z):
    return z * 3
