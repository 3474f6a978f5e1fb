"""Numbers to try operations on: the edges of every type, and seeded others."""

from __future__ import annotations

import functools

import numpy as np

from tests.unit.runtime.cpu.tileir.reference import LAYOUTS
from tilec_runtime.cpu.tileir.ir import Scalar
from tilec_runtime.cpu.tileir.values import Array, Layout, storage


@functools.cache
def patterns(kind: Scalar, number: int = 6) -> tuple[int, ...]:
    """Bits of floating point numbers: zeros, the least and greatest of each sort, ones, infinities,
    a NaN, and seeded others.
    """
    layout = LAYOUTS[kind]
    width = layout.exponent + layout.fraction
    one = layout.bias << layout.fraction
    normal = 1 << layout.fraction
    top = ((1 << layout.exponent) - 1) << layout.fraction
    edges = [
        0,
        1,
        normal - 1,
        normal,
        normal + 1,
        one - 1,
        one,
        one + 1,
        one + (normal >> 1),
        top - 1,
        top,
        top + (normal >> 1),
    ]
    rng = np.random.default_rng(kind.bits + layout.fraction)
    near = one + rng.integers(-4 * normal, 4 * normal, number)
    low = rng.integers(0, 3 * normal, 3)
    anywhere = rng.integers(0, 1 << width, number, dtype=np.uint64)
    found = {int(bits) & ((1 << width) - 1) for bits in (*edges, *near, *low, *anywhere)}
    return tuple(sorted(found | {bits | 1 << width for bits in found} if layout.signed else found))


def floats(bits: Array | tuple[int, ...], kind: Scalar) -> Array:
    """Patterns of bits as they are held."""
    held = storage(kind)
    raw = np.asarray(bits, np.uint64)
    if kind is Scalar.TF32:
        raw = raw << np.uint64(13)
    return raw.astype(f"u{held.itemsize}").view(held)


def bits_of(held: Array, kind: Scalar) -> list[int]:
    """The patterns of what is held."""
    raw = np.ascontiguousarray(held).view(f"u{held.dtype.itemsize}").astype(np.uint64).ravel()
    return [int(bits) >> 13 if kind is Scalar.TF32 else int(bits) for bits in raw]


@functools.cache
def integers(kind: Scalar) -> tuple[int, ...]:
    """Signed numbers: all of i1 and i4, edges and seeded others of wider types."""
    half = 1 << (kind.bits - 1)
    if kind.bits <= 4:
        return tuple(range(-half, half))
    rng = np.random.default_rng(kind.bits)
    seeded = rng.integers(-half, half - 1, 12, dtype=np.int64)
    edges = [
        -half,
        -half + 1,
        -kind.bits,
        -3,
        -2,
        -1,
        0,
        1,
        2,
        3,
        5,
        7,
        kind.bits - 1,
        kind.bits,
        kind.bits + 1,
        half // 2,
        half - 2,
        half - 1,
    ]
    return tuple(sorted({int(number) for number in (*edges, *seeded)}))


def held_integers(numbers: list[int], kind: Scalar) -> Array:
    """Signed numbers as they are held."""
    if kind is Scalar.I1:
        return np.array([bool(number) for number in numbers])
    return np.array(numbers, storage(kind))


def signed(held: Array, kind: Scalar) -> list[int]:
    """What is held as signed numbers."""
    return [-int(item) if kind is Scalar.I1 else int(item) for item in held.ravel()]


def garbage(layout: Layout, shape: tuple[int, ...], turn: int = 0) -> Array:
    """A tile of undetermined elements, as it is held."""
    hostile = layout.decode(layout.hostile())
    flat = [hostile[(place + turn) % 3] for place in range(int(np.prod(shape)))]
    return np.array(flat, hostile.dtype).reshape(shape)
