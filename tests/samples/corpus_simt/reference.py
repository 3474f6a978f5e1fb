"""What the kernels of this directory compute, in NumPy."""

import math

import numpy as np


def vector_add(a, b):
    return a + b


def increment(an_array):
    return an_array + 1


def to_polar(x, y):
    return {"rho": np.hypot(x, y), "theta": np.arctan2(y, x)}


def quick_waves(x):
    return np.sin(x.astype(np.float64)) ** 2 + np.cos(x.astype(np.float64))


def mandelbrot(image, left, right, low, high, most):
    rows, columns = image.shape
    x = left + np.arange(columns) * ((right - left) / columns)
    y = low + np.arange(rows) * ((high - low) / rows)
    c = x[None, :] + 1j * y[:, None]
    z, steps = np.zeros_like(c), np.full(image.shape, most, np.uint8)
    inside = np.ones(image.shape, bool)
    for i in range(most):
        z = np.where(inside, z * z + c, z)
        gone = inside & (z.real**2 + z.imag**2 >= 4)
        steps[gone] = i
        inside &= ~gone
    return steps


def smooth(x):
    padded = np.pad(x.astype(np.float64), 2, mode="edge")
    return sum(w * padded[i : i + x.size] for i, w in enumerate([0.05, 0.25, 0.4, 0.25, 0.05]))


def bessel(x, order):
    return sum((-1) ** m / (math.factorial(m) * math.factorial(m + order)) * (x / 2) ** (2 * m + order) for m in range(16))


def three_columns(x):
    return x[:, :3].astype(np.float64) @ [0.5, 2.0, -1.0] + x[:, -1]


def largest(values):
    above = values > 2.0
    bits = np.bitwise_or.reduce(np.where(above.any(axis=0), 1 << np.arange(values.shape[1]) % 31, 0))
    return {"result": np.array([values.max(), values.min()]), "at": np.array([above.sum(), bits, 7, 5], np.int32)}


def running_sums(x):
    return np.cumsum(x)


def warp_facts(x):
    lanes = np.zeros((-(-x.size // 32), 32), np.int32)
    lanes.reshape(-1)[: x.size] = x
    left = np.concatenate([lanes[:, :1], lanes[:, :-1]], axis=1)
    odd = lanes % 2 != 0
    alike = lanes[:, :, None] == lanes[:, None, :]
    whole = (lanes.sum(axis=1), odd.sum(axis=1), 2 * odd.all(axis=1) + odd.any(axis=1))
    total, many, which = (np.repeat(v, 32).reshape(-1, 32) for v in whole)
    columns = (left, total, many, which, alike.sum(axis=2), alike.argmax(axis=2))
    return np.stack(columns, axis=2).reshape(-1, 6)[: x.size].astype(np.int32)


def mirrored(x):
    other = x.reshape(-1, 64, 2)[:, ::-1].reshape(-1, 2)
    return np.stack([-other[:, 1], other[:, 0]], axis=1)


def block_votes(x):
    odd = x.reshape(-1, 96) % 2
    return np.stack([odd.sum(axis=1), odd.all(axis=1), odd.any(axis=1)], axis=1).astype(np.int32)


def wave(now, past, c):
    u = now.astype(np.float64)
    inner = u[1:-1, 1:-1]
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    out = u.copy()
    out[1:-1, 1:-1] = 2 * inner - past[1:-1, 1:-1] + c * (around - 4 * inner)
    return out


def sessionize(user_id, timestamp):
    first = np.ones(user_id.size, bool)
    first[1:] = (user_id[1:] != user_id[:-1]) | (np.diff(timestamp) > 3600)
    return np.maximum.accumulate(np.where(first, np.arange(user_id.size), 0))


class _Generator:
    """xoroshiro128+, one state for each thread, seeded as numba does."""

    def __init__(self, seed, threads):
        with np.errstate(over="ignore"):
            z = np.arange(threads, dtype=np.uint64) + np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        self._0 = self._1 = z ^ (z >> np.uint64(31))

    @classmethod
    def of(cls, states):
        """The generators whose states lie in an array of bytes, 16 for each."""
        made = cls(0, 0)
        made._0, made._1 = states.copy().view(np.uint64).T
        return made

    def states(self):
        return np.stack([self._0, self._1], axis=1).view(np.uint8)

    def uniform(self):
        with np.errstate(over="ignore"):
            drawn = self._0 + self._1
        mixed = self._0 ^ self._1
        self._0 = _rotated(self._0, 55) ^ mixed ^ (mixed << np.uint64(14))
        self._1 = _rotated(mixed, 36)
        return ((drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53).astype(np.float32)


def _rotated(x, by):
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


def states(shape, seed):
    return _Generator(seed, shape[0]).states()


def draw(y, states):
    rows, columns = y.shape
    lots = _Generator.of(states[:columns])
    drawn = np.stack([lots.uniform() for _ in range(rows)])
    return drawn, np.concatenate([lots.states(), states[columns:]])


PARTICLE = np.dtype([("alive", np.int8), ("at", np.float64), ("speed", np.float32), ("steps", np.int32)], align=True)


def particles(shape, seed):
    rng = np.random.default_rng(seed)
    made = np.zeros(shape[:2], PARTICLE)
    made["alive"] = rng.integers(0, 2, made.shape)
    made["at"], made["speed"] = rng.integers(-64, 64, (2, *made.shape))
    return made


def drift(particles, dt):
    after = particles.copy().view(PARTICLE)
    alive = after["alive"] != 0
    after["at"][alive] += after["speed"][alive] * np.float32(dt)
    after["steps"] += alive
    return after.view(np.uint8)
