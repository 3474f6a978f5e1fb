"""What the kernels of this directory compute, in NumPy."""

import numpy as np


def add(x, y):
    return x.astype(np.float64) + y.astype(np.float64)


def seeded_dropout(x, p, seed):
    return np.where(_rand(seed, np.arange(x.size, dtype=np.uint64)) > p, x / np.float32(1 - p), 0)


def _rand(seed, offsets):
    """The first number of Philox 4x32-10 for the counters (offset, 0, 0, 0), in [0, 1)."""
    low = np.uint64(0xFFFFFFFF)
    c0, c1, c2, c3 = offsets & low, np.zeros_like(offsets), np.zeros_like(offsets), np.zeros_like(offsets)
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(10):
        even, odd = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c2 = (odd >> np.uint64(32)) ^ c1 ^ np.uint64(key[0]), (even >> np.uint64(32)) ^ c3 ^ np.uint64(key[1])
        c1, c3 = odd & low, even & low
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    drawn = c0.astype(np.uint32).view(np.int32)
    return np.where(drawn < 0, -1 - drawn, drawn).astype(np.float32) * np.float32(4.6566127342e-10)


def arcsine(x):
    return np.arcsin(x.astype(np.float64))


def grouped_matmul(a, b, c, sizes):
    out = c.astype(np.float32)
    for g, (m, n, k) in enumerate(sizes):
        left, right = a[g, : m * k].reshape(m, k), b[g, : k * n].reshape(k, n)
        out[g, : m * n] = (left.astype(np.float32) @ right.astype(np.float32)).reshape(-1)
    return out


def layer_norm_dx(dy, x, w, mean, rstd, locks):
    dy, x, w = (v.astype(np.float64) for v in (dy, x, w))
    xhat = (x - mean[:, None]) * rstd[:, None]
    wdy = w * dy
    both, one = (xhat * wdy).mean(axis=1, keepdims=True), wdy.mean(axis=1, keepdims=True)
    groups = locks.shape[1]
    dw, db = np.zeros((groups, x.shape[1])), np.zeros((groups, x.shape[1]))
    np.add.at(dw, np.arange(len(x)) % groups, dy * xhat)
    np.add.at(db, np.arange(len(x)) % groups, dy)
    left = np.zeros_like(locks)
    left[1] = 1
    return {"dx": (wdy - (xhat * both + one)) * rstd[:, None], "dw": dw, "db": db, "locks": left}


def layer_norm_dwdb(dw, db):
    return {"w_sum": dw.sum(axis=0, dtype=np.float64), "b_sum": db.sum(axis=0, dtype=np.float64)}


def recurrence(a, b):
    y = np.zeros(b.shape)
    for t in range(b.shape[1]):
        y[:, t] = a[:, t] * (y[:, t - 1] if t else 0) + b[:, t]
    return y


def bins(x, counts):
    return counts + np.bincount(x, minlength=counts.size).astype(np.int32)


def attention(q, k, v, scale, mask=0.0):
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    logits = q @ k.swapaxes(-1, -2) * scale + mask
    most = logits.max(axis=-1, keepdims=True)
    weight = np.exp(logits - most)
    total = weight.sum(axis=-1, keepdims=True)
    return {"out": weight / total @ v, "m": ((most + np.log(total)) / np.log(2))[..., 0]}


def causal_attention(q, k, v, scale):
    after = np.triu(np.full((q.shape[2], q.shape[2]), -np.inf), 1)
    return attention(q, k, v, scale, after)


def described_attention(q, k, v, scale):
    return attention(q, k, v, scale)["out"]
