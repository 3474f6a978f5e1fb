"""Which tiles lie in an array: what the checked accesses of the language ask inside of a kernel."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct

ZERO = ct.PaddingMode.ZERO


def inside(index: Any, shape: Any, extents: Any) -> Any:
    """Whether tile `index` of tiles of `shape` has an element in an array of these extents."""
    found = (index[0] >= 0) & (index[0] < ct.cdiv(extents[0], shape[0]))
    for axis in ct.static_iter(range(1, len(shape))):
        found = found & (index[axis] >= 0) & (index[axis] < ct.cdiv(extents[axis], shape[axis]))
    return found


def value_of(padding: Any) -> Any:
    """What a tile with no element in its array holds."""
    if padding == ct.PaddingMode.NAN:
        return float("nan")
    if padding == ct.PaddingMode.POS_INF:
        return float("inf")
    if padding == ct.PaddingMode.NEG_INF:
        return -float("inf")
    if padding == ct.PaddingMode.NEG_ZERO:
        return -0.0
    return 0


def load_inside(array: Any, index: Any, shape: Any, padding: Any, latency: Any, allow_tma: Any) -> Any:
    """The tile, or padding alone where it has no element in the array."""
    if inside(index, shape, array.shape):
        tile = ct.load(array, index, shape, padding_mode=padding, latency=latency, allow_tma=allow_tma)
    else:
        tile = ct.full(shape, value_of(padding), array.dtype)
    return tile
