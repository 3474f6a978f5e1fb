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


def layer_norm(x, weight=None, bias=None, eps=1e-5):
    """Each row with mean 0 and variance 1, scaled and shifted by what is given."""
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    result = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + eps)
    result = result if weight is None else result * weight
    return (result if bias is None else result + bias).astype(np.float32)


def add_scale(x, y, factor):
    """What each step of the chain writes."""
    total = x + y
    return {"total": total, "scaled": total * np.float32(factor)}
