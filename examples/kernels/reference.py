"""What each kernel computes, in NumPy: the references of the cases in tilec.toml, on inputs that
are widened first.
"""

import numpy as np


def wide(x):
    return x.astype(np.float64)


def narrow(x, like):
    """`x` rounded as an array of `like`'s dtype holds it."""
    return wide(x.astype(like.dtype))


def add(x, y):
    return wide(x) + wide(y)


def saxpy(y, x, alpha):
    return alpha * wide(x) + wide(y)


def swiglu(gate, up):
    return wide(gate) / (1.0 + np.exp(-wide(gate))) * wide(up)


def rope(x, cos, sin):
    first, second = np.split(wide(x), 2, axis=2)
    c, s = wide(cos)[:, None, :], wide(sin)[:, None, :]
    return np.concatenate([first * c - second * s, second * c + first * s], axis=2)


def dropout(x, seed, keep):
    word = philox(np.arange(-(-len(x) // 4), dtype=np.uint64), seed).T.reshape(-1)[: len(x)]
    kept = (word >> 8).astype(np.float32) * np.float32(2.0**-24) < np.float32(keep)
    return np.where(kept, wide(x) / keep, 0.0)


def philox(counter, seed):
    """Philox 4x32-10 of counters (n, 0, 0, 0) under the key (seed, 0): four rows of words."""
    low = np.uint64(0xFFFFFFFF)
    a, b, c, d = counter & low, *(np.zeros_like(counter) for _ in range(3))
    first, second = seed & 0xFFFFFFFF, 0
    for _ in range(10):
        left, right = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b = (right >> np.uint64(32)) ^ b ^ np.uint64(first), right & low
        c, d = (left >> np.uint64(32)) ^ d ^ np.uint64(second), left & low
        first, second = (first + 0x9E3779B9) & 0xFFFFFFFF, (second + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([a, b, c, d]).astype(np.uint32)


def softmax(x):
    weight = np.exp(wide(x) - wide(x).max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def rms_norm(x, weight, eps):
    return wide(x) / np.sqrt(np.mean(wide(x) ** 2, axis=1, keepdims=True) + eps) * wide(weight)


def layer_norm(x, weight, bias, eps):
    centred = wide(x) - wide(x).mean(axis=1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + eps) * wide(
        weight
    ) + wide(bias)


def add_rms_norm(x, residual, weight, eps):
    total = narrow(wide(x) + wide(residual), x)
    return {"total": total, "y": rms_norm(total, weight, eps)}


def argmax(x):
    return wide(x).argmax(axis=1)


def gemm(a, b):
    # f32 holds every product of two narrow values exactly, and is fast on any host.
    return a.astype(np.float32) @ b.astype(np.float32)


def linear(a, b):
    return gemm(a, b.T)


def batched_gemm(a, b):
    return gemm(a, b)


def grouped_gemm(a, b, group):
    nearest = np.clip(group, 0, len(b) - 1)
    return np.concatenate(
        [gemm(rows, b[g]) for rows, g in zip(np.split(a, len(group)), nearest, strict=True)]
    )


def attention(q, k, v, scale):
    """Causal; each head of k and v serves as many heads of q as there are."""
    k, v = (np.repeat(wide(x), len(q) // len(k), axis=0) for x in (k, v))
    score = wide(q) @ k.transpose(0, 2, 1) * scale
    score[:, np.triu(np.ones(score.shape[1:], bool), 1)] = -np.inf
    weight = np.exp(score - score.max(axis=2, keepdims=True))
    return weight / weight.sum(axis=2, keepdims=True) @ v


def embedding(table, ids):
    known = (ids >= 0) & (ids < len(table))
    return np.where(known[:, None], wide(table)[np.where(known, ids, 0)], 0.0)


def kv_append(cache, new, start):
    found = wide(cache)
    for i, first in enumerate(start):
        for t in range(new.shape[1]):
            if 0 <= first + t < cache.shape[1]:
                found[i, first + t] = new[i, t]
    return found


def group_peaks(x, peaks):
    starts = np.arange(peaks.shape[1]) * 32
    return np.maximum.reduceat(wide(x), starts, axis=1)


def top_k(x, peaks, values):
    """Of the groups with the largest peaks, the first where these are equal: as many as elements
    are wanted.
    """
    k, found = values.shape[1], wide(x)
    groups = np.argsort(-peaks, axis=1, kind="stable")[:, :k]
    looked_at = np.zeros((len(x), peaks.shape[1]), bool)
    np.put_along_axis(looked_at, groups, values=True, axis=1)
    found[~np.repeat(looked_at, 32, axis=1)[:, : x.shape[1]]] = -np.inf
    place = np.argsort(-found, axis=1, kind="stable")[:, :k]
    return {"values": np.take_along_axis(found, place, axis=1), "places": place}
