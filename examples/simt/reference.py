"""What the kernels of this directory compute, in NumPy."""

import numpy as np


def saxpy(x, y, a):
    return a * x + y


def clamp(x, box):
    low, high = np.frombuffer(box, np.float32)
    return np.clip(x, low, high)


def add_rows(x, row):
    return x + row


def block_sums(x, out):
    blocks, threads = out.size, 256
    padded = np.zeros(-(-x.size // (blocks * threads)) * blocks * threads, np.float64)
    padded[: x.size] = x
    return padded.reshape(-1, blocks, threads).sum(axis=(0, 2)).astype(np.float32)


def histogram(x):
    return np.bincount(x, minlength=64).astype(np.int32)


def matmul(a, b):
    return a @ b


def diffuse(u, v, steps, rate):
    for step in range(steps):
        old = u if step % 2 == 0 else v
        new = old + np.float32(rate) * (
            np.r_[old[:1], old[:-1]] - 2 * old + np.r_[old[1:], old[-1:]]
        )
        u, v = (u, new) if step % 2 == 0 else (new, v)
    return {"u": u, "v": v}


def count_inside(hits, seed, samples):
    factor, shift = np.uint64(6364136223846793005), np.uint64(1442695040888963407)
    with np.errstate(over="ignore"):
        state = (np.uint64(seed) + np.arange(hits.size, dtype=np.uint64)) * factor + shift
        inside = np.zeros(hits.size, np.int32)
        for _ in range(samples):
            state = state * factor + shift
            x = (state >> np.uint64(32)).astype(np.float32) * np.float32(1 / 4294967296)
            state = state * factor + shift
            y = (state >> np.uint64(32)).astype(np.float32) * np.float32(1 / 4294967296)
            inside += x * x + y * y < np.float32(1)
    return inside
