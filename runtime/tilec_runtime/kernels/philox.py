"""Philox 4x32-10 with NumPy: twin of philox.cuh and random.cu, with equal bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.floats import fused_float32 as fma
from tilec_runtime.kernels.elements import Array, narrow

# Counters per step, few enough for the processor's cache.
CHUNK = 1 << 14
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_HALF = np.uint64(32)
_WORD = np.uint64(0xFFFFFFFF)


def _hex(*texts: str) -> tuple[Any, ...]:
    return tuple(np.float32(float.fromhex(text)) for text in texts)


# Polynomials, highest power first: -2 log(1 + f) / f for 1 + f from sqrt(1/2) to sqrt(2); in t^2,
# sin(pi/4 t) / t and cos(pi/4 t).
_LOG = _hex(
    "-0x1.6626eap-3",
    "0x1.26729ep-2",
    "-0x1.322850p-2",
    "0x1.5329bep-2",
    "-0x1.98b80ap-2",
    "0x1.0005a6p-1",
    "-0x1.555790p-1",
    "0x1.fffff8p-1",
    "-0x1.000000p+1",
)
_SINE = _hex("-0x1.2d9b7cp-15", "0x1.465ec4p-9", "-0x1.4abbbap-4", "0x1.921fb6p-1")
_COSINE = _hex("-0x1.4e5e6ep-12", "0x1.03af5ap-6", "-0x1.3bd392p-2", "0x1.000000p+0")
_OCTAVE = _hex("-0x1.62e430p-23")[0]


def philox(counter: tuple[Array, ...], key: tuple[int, int]) -> tuple[Array, ...]:
    """Return the four random words of each counter.

    Args:
        counter: the four words of the counters, lowest first.
        key: two words.
    """
    c0, c1, c2, c3 = (np.asarray(word, np.uint64) for word in counter)
    key0, key1 = key
    for _ in range(_ROUNDS):
        a, b = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (b >> _HALF) ^ c1 ^ np.uint64(key0),
            b & _WORD,
            (a >> _HALF) ^ c3 ^ np.uint64(key1),
            a & _WORD,
        )
        key0, key1 = (key0 + _WEYL[0]) & 0xFFFFFFFF, (key1 + _WEYL[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def write_uniform(to: Array, dtype: str, seed: int, first: int = 0) -> None:
    """Write the bits of uniform random numbers in [0, 1).

    Args:
        to: unsigned integers of the dtype's size.
        dtype: f16, bf16, f32 or f64.
        seed: seed of the sequence.
        first: the sequence's element to start with; a multiple of 4.
    """
    _write(to, dtype, seed, first, lambda words: _uniform(words, dtype))


def write_normal(
    to: Array, dtype: str, seed: int, mean: float, deviation: float, first: int = 0
) -> None:
    """Write the bits of normal random numbers.

    They are computed in float32 for all dtypes but f64. The arguments are those of `write_uniform`,
    with mean and deviation.
    """
    if dtype == "f64":
        _write(to, dtype, seed, first, lambda words: _normal64(words, mean, deviation))
    else:
        _write(
            to,
            dtype,
            seed,
            first,
            lambda words: _normal32(words, dtype, np.float32(mean), np.float32(deviation)),
        )


def _write(to: Array, dtype: str, seed: int, first: int, make: Any) -> None:
    each = 2 if dtype == "f64" else 4
    key = (seed & 0xFFFFFFFF, seed >> 32)
    zero = np.zeros(1, np.uint64)
    for start in range(0, to.size, CHUNK * each):
        part = to[start : start + CHUNK * each]
        counters = np.arange(-(-part.size // each), dtype=np.uint64) + np.uint64(
            (first + start) // each
        )
        words = philox((counters & _WORD, counters >> _HALF, zero, zero), key)
        part[...] = make(words)[: part.size]


def _uniform(words: tuple[Array, ...], dtype: str) -> Array:
    if dtype == "f64":
        return _woven(
            [(pair >> np.uint64(11)).astype(np.float64) * 2.0**-53 for pair in _joined(words)]
        ).view(np.uint64)
    drawn = _woven(words)
    if dtype == "f32":
        return ((drawn >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)).view(np.uint32)
    digits = 11 if dtype == "f16" else 8
    return narrow(
        (drawn >> np.uint64(32 - digits)).astype(np.float32) * np.float32(2.0**-digits), dtype
    )


def _normal32(words: tuple[Array, ...], dtype: str, mean: Any, deviation: Any) -> Array:
    columns = [
        fma(number, deviation, mean) for pair in (words[:2], words[2:]) for number in _pair32(*pair)
    ]
    numbers = _woven(columns)
    return numbers.view(np.uint32) if dtype == "f32" else narrow(numbers, dtype)


def _pair32(first: Array, second: Array) -> tuple[Array, Array]:
    """Return two standard normal numbers from two words, by Box and Muller."""
    cut = first.astype(np.float64).view(np.uint64) & ~np.uint64(
        (1 << 29) - 1
    )  # truncated to the 24 significant bits of float32
    u = fma(cut.view(np.float64).astype(np.float32), np.float32(2.0**-32), np.float32(2.0**-33))
    bits = u.view(np.uint32)
    exponent = (bits - np.uint32(0x3F3504F3)) & np.uint32(0xFF800000)
    f = (bits - exponent).view(np.float32) - np.float32(1)
    square = fma(exponent.view(np.int32).astype(np.float32), _OCTAVE, _polynomial(_LOG, f) * f)
    word = second.astype(np.uint32)
    radius = (np.sqrt(square).view(np.uint32) ^ (word & np.uint32(0x80000000))).view(np.float32)
    t = (word << np.uint32(2)).view(np.int32).astype(np.float32) * np.float32(2.0**-31)
    z = t * t
    sine, cosine = _polynomial(_SINE, z) * t, _polynomial(_COSINE, z)
    swapped = (word & np.uint32(0x40000000)) != 0
    return radius * np.where(swapped, sine, cosine), radius * np.where(swapped, cosine, sine)


def _polynomial(coefficients: tuple[Any, ...], x: Array) -> Array:
    total = np.full(x.shape, coefficients[0])
    for coefficient in coefficients[1:]:
        total = fma(total, x, coefficient)
    return total


def _normal64(words: tuple[Array, ...], mean: float, deviation: float) -> Array:
    first, second = _joined(words)
    u = ((first >> np.uint64(12)) * np.uint64(2) + np.uint64(1)).astype(np.float64) * 2.0**-53
    bits = u.view(np.uint64)
    exponent = (bits - np.uint64(0x3FE6A09E667F3BCD)) & np.uint64(0xFFF0000000000000)
    m = (bits - exponent).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    p = np.full(s.shape, 4.0 / 23)
    for k in range(21, 0, -2):
        p = p * q + 4.0 / k
    octaves = (exponent.view(np.int64) >> np.int64(52)).astype(np.float64)
    root = np.sqrt(octaves * -float.fromhex("0x1.62e42fefa39efp+0") - p * s)
    radius = np.where(second >> np.uint64(63) != 0, -root, root)
    t = (second << np.uint64(2)).view(np.int64).astype(np.float64) * float.fromhex(
        "0x1.921fb54442d18p-64"
    )
    z = -(t * t)
    sine, cosine = np.ones_like(t), np.ones_like(t)
    for k in range(16, 0, -2):  # Taylor series, highest power first
        sine = (sine * z) * (1.0 / (k * (k + 1))) + 1.0
        cosine = (cosine * z) * (1.0 / (k * (k - 1))) + 1.0
    sine = sine * t
    swapped = (second >> np.uint64(62)) & np.uint64(1) != 0
    pair = [radius * np.where(swapped, sine, cosine), radius * np.where(swapped, cosine, sine)]
    return _woven([number * deviation + mean for number in pair]).view(np.uint64)


def _joined(words: tuple[Array, ...]) -> tuple[Array, Array]:
    """Join pairs of words to 64-bit words, the first of each pair lowest."""
    return words[1] << _HALF | words[0], words[3] << _HALF | words[2]


def _woven(columns: Any) -> Array:
    """Interleave arrays, element by element."""
    return np.stack(columns, axis=-1).reshape(-1)
