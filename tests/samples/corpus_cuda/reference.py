"""What the kernels of this directory compute, in NumPy."""

import math

import numpy as np


def _block_sums(x, blocks, threads):
    rows = -(-x.size // (blocks * threads))
    padded = np.zeros(rows * blocks * threads, np.float64)
    padded[: x.size] = x.reshape(-1)
    return padded.reshape(rows, blocks, threads).sum(axis=(0, 2))


def sum_tree(x, out):
    return _block_sums(x, out.size, 128).astype(out.dtype)


def sum_wide(x, out):
    return _block_sums(x, out.size, 512).astype(out.dtype)


def grid_sum(x, scratch):
    parts = _block_sums(x, scratch.size, 256)
    return {"total": np.array([x.sum(dtype=np.float64)]), "scratch": parts}


def last_block_sum(x, scratch):
    return {"total": np.array([x.sum(dtype=np.float64)]), "scratch": _block_sums(x, scratch.size, 256)}


def scan_blocks(x):
    padded = np.zeros(-(-x.size // 256) * 256, np.int32)
    padded[: x.size] = x
    upto = np.cumsum(padded.reshape(-1, 256), axis=1, dtype=np.int32)
    return {"y": upto.reshape(-1)[: x.size], "sums": upto[:, -1]}


def scan_rows(x):
    upto = np.cumsum(x, axis=1, dtype=np.float64)
    return upto - x


def add_offsets(y, offsets):
    block = np.arange(y.size) // 256
    return y + np.concatenate([[0], offsets])[block].astype(np.int32)


def transpose(x):
    return np.ascontiguousarray(x.T)


def histogram256(counts, x):
    return counts + np.bincount(x, minlength=256).astype(np.uint32)


def keep_positive(x):
    kept = np.zeros_like(x)
    kept[: (x > 0).sum()] = 1
    return {"y": kept, "count": np.array([(x > 0).sum()], np.int32)}


def count_keys(counts, keys):
    return counts + np.bincount(keys, minlength=counts.size).astype(np.int32)


def votes(x):
    odd = np.zeros(-(-x.size // 32) * 32, bool)
    odd[: x.size] = x % 2 != 0
    odd = odd.reshape(-1, 32)
    return (odd.any(axis=1) + 2 * odd.all(axis=1) + 4 * odd.sum(axis=1)).astype(np.int32)


def sort_rows(x):
    return np.sort(x, axis=1)


def product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def options(price, strike, years, rate, volatility):
    price, strike, years = (v.astype(np.float64) for v in (price, strike, years))
    root = volatility * np.sqrt(years)
    one = (np.log(price / strike) + (rate + volatility**2 / 2) * years) / root
    cdf = np.vectorize(lambda d: math.erfc(-d / math.sqrt(2)) / 2)
    first, second = cdf(one), cdf(one - root)
    discounted = strike * np.exp(-rate * years)
    return {"call": price * first - discounted * second, "put": discounted * (1 - second) - price * (1 - first)}


def forces(body):
    place, mass = body[:, :3].astype(np.float64), body[:, 3].astype(np.float64)
    apart = place[None, :, :] - place[:, None, :]
    distance = (apart**2).sum(axis=2) + 1e-2
    return (apart * (mass[None, :] / distance**1.5)[:, :, None]).sum(axis=1)


def filter_rows(x):
    weights = [0.02, 0.05, 0.12, 0.2, 0.22, 0.2, 0.12, 0.05, 0.02]
    padded = np.pad(x.astype(np.float64), ((0, 0), (4, 4)))
    return sum(weight * padded[:, w : w + x.shape[1]] for w, weight in enumerate(weights))


def scan_and_max(x):
    return {"sums": np.cumsum(x, axis=1, dtype=np.int32), "largest": x.max(axis=1)}
