"""What each example kernel computes, in NumPy: the references of the cases in tilec.toml.

Each function is called with the case's inputs by name and returns the kernel's output.
Low-precision inputs are widened first, so that a reference is more exact than the kernel it is held
against.
"""

import numpy as np


def wide(x):
    """`x` in f64, or as it is where it holds integers."""
    return x if np.issubdtype(x.dtype, np.integer) else x.astype(np.float64)


def vector_add(x, y):
    return wide(x) + wide(y)


def saxpy(y, x, alpha):
    return alpha * wide(x) + wide(y)


def softmax(x):
    weight = np.exp(wide(x) - wide(x).max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def softmax_backward(grad_y, y):
    product = wide(y) * wide(grad_y)
    return product - wide(y) * product.sum(axis=1, keepdims=True)


def rms_norm(x, weight, eps):
    scale = 1.0 / np.sqrt(np.mean(wide(x) ** 2, axis=1, keepdims=True) + eps)
    return wide(x) * scale * wide(weight)


def layer_norm(x, weight, bias, eps):
    centred = wide(x) - wide(x).mean(axis=1, keepdims=True)
    scale = 1.0 / np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + eps)
    return centred * scale * wide(weight) + wide(bias)


def gemm(a, b):
    # f32 holds every product of two f16 or bf16 values exactly, and is fast on any host.
    return a.astype(np.float32) @ b.astype(np.float32)


def reduce_sum(total, x):
    return wide(total) + wide(x).sum()


def block_scan(x):
    return np.cumsum(x, axis=1, dtype=x.dtype)


def elementwise(x, y, scale, bias):
    return (wide(x) * scale + bias).reshape(y.shape)


def stencil(x, alpha):
    padded = np.pad(wide(x), 1, mode="edge")
    around = padded[1:-1, :-2] + padded[1:-1, 2:] + padded[:-2, 1:-1] + padded[2:, 1:-1]
    return wide(x) + alpha * (around - 4.0 * wide(x))


def square_add(x, c):
    return wide(x) * wide(x) + c
