"""What each kernel computes, in NumPy: the references of the cases in tilec.toml."""

import numpy as np


def add(x, y):
    return x.astype(np.float64) + y.astype(np.float64)


def softmax(x):
    weight = np.exp(x.astype(np.float64) - x.astype(np.float64).max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def matmul(a, b):
    return a.astype(np.float32) @ b.astype(np.float32)


def double(x):
    return 2 * x
