"""Bounds checks of tile accesses: at run time in kernels, and at compile time by divisibility."""

from __future__ import annotations

from typing import Any

import cuda.tile as ct

ZERO = ct.PaddingMode.ZERO


def inside(index: Any, shape: Any, extents: Any) -> Any:
    """Return whether tile `index`, of tiles of `shape`, begins inside an array of these extents."""
    found = (index[0] >= 0) & (index[0] < ct.cdiv(extents[0], shape[0]))
    for axis in ct.static_iter(range(1, len(shape))):
        found = found & (index[axis] >= 0) & (index[axis] < ct.cdiv(extents[axis], shape[axis]))
    return found


def value_of(padding: Any) -> Any:
    """Return the value that a padding mode stands for."""
    if padding == ct.PaddingMode.NAN:
        return float("nan")
    if padding == ct.PaddingMode.POS_INF:
        return float("inf")
    if padding == ct.PaddingMode.NEG_INF:
        return -float("inf")
    if padding == ct.PaddingMode.NEG_ZERO:
        return -0.0
    return 0


def ragged(shape: tuple[int, ...], divisors: tuple[int, ...]) -> bool:
    """Return whether a tile that begins in an array may extend past its end, at compile time.

    `divisors` divide the array's extents. Empty divisors mean that nothing is known, not even for
    tiles of one element.
    """
    return not divisors or any(
        divisor % extent for divisor, extent in zip(divisors, shape, strict=True)
    )


def broadcast_at(index: Any, axes: Any, number: int) -> Any:
    """Return `index` with `number` along the broadcast axes."""
    found: Any = ()
    for axis in ct.static_iter(range(len(index))):
        found = (
            (*found, number)
            if ct.static_eval(axis == axes if isinstance(axes, int) else axis in axes)
            else (*found, index[axis])
        )
    return found


def load_inside(
    array: Any,
    divisors: Any,
    checked: Any,
    index: Any,
    shape: Any,
    padding: Any,
    latency: Any,
    allow_tma: Any,
) -> Any:
    """Load a tile; a `checked` tile that lies outside the array is all padding."""
    if not checked or inside(index, shape, array.shape):
        tile = load_begun(array, divisors, index, shape, padding, latency, allow_tma)
    else:
        tile = ct.full(shape, value_of(padding), array.dtype)
    return tile


def load_begun(
    array: Any, divisors: Any, index: Any, shape: Any, padding: Any, latency: Any, allow_tma: Any
) -> Any:
    """Load a tile that begins in the array, without a mask if it cannot extend past the end."""
    if ct.static_eval(ragged(shape, divisors)):
        tile = ct.load(
            array, index, shape, padding_mode=padding, latency=latency, allow_tma=allow_tma
        )
    else:
        tile = ct.load(
            array, index, shape, check_bounds=False, latency=latency, allow_tma=allow_tma
        )
    return tile


def store_begun(
    array: Any, divisors: Any, index: Any, shape: Any, tile: Any, latency: Any, allow_tma: Any
) -> None:
    """Store a tile that begins in the array."""
    check = ct.static_eval(ragged(shape, divisors))
    ct.store(
        array,
        index,
        ct.broadcast_to(tile, shape),
        check_bounds=check,
        latency=latency,
        allow_tma=allow_tma,
    )
