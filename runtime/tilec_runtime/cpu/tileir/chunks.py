"""Runs a function of tiles on a few blocks at a time, so that what it computes in between stays in the cache."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilec_runtime.cpu.tileir.values import Array

_ELEMENTS = 1 << 15  # a quarter of a MiB in float64


def chunked(function: Callable[..., Array]) -> Callable[..., Array]:
    """The same function of tiles, whose result has the tiles' shape."""

    def run(*tiles: Array) -> Array:
        shape = np.broadcast_shapes(*[held.shape for held in tiles])
        rows = shape[0]
        together = max(1, _ELEMENTS * rows // max(1, _size(shape)))
        if together >= rows:
            return function(*tiles)
        result: Array | None = None
        for start in range(0, rows, together):
            part = slice(start, start + together)
            found = function(*[held[part] if held.shape[0] > 1 else held for held in tiles])
            if result is None:
                result = np.empty(shape, found.dtype)
            result[part] = found
        assert result is not None
        return result

    return run


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size
