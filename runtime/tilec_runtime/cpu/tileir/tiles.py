"""Copies of whole tiles between memory and arrays.

One strided copy serves all blocks whose tiles have the same part inside the tensor.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.values import Array, Rows
from tilec_runtime.cpu.tileir.views import Tensor

# With more kinds of tiles across the tensor's edges than this, single elements are copied.
_MANY = 64
# Strides of this many bytes would overflow 64 bits; no tensor has them.
_FARTHEST = 1 << 62
_ALL = slice(None)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TileBox:
    """Blocks with the same part of their tile inside the tensor.

    Attributes:
        rows: rows of the blocks.
        part: range of the part along each dimension of the tile; None for the whole tile.
        extents: extents of the part.
        addresses: address of the part's first element, one per block.
    """

    rows: slice | Rows
    part: tuple[slice, ...] | None
    extents: tuple[int, ...]
    addresses: Array


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TilePlan:
    """The boxes of a batch's tiles. Rows in no box are outside of the tensor.

    Attributes:
        rows: number of tiles; 1 if all blocks have the same one.
        tile: extents of a tile.
        strides: bytes between elements along each dimension of the tile.
        boxes: the parts inside the tensor.
        regions: memory of each box.
        injective: whether all elements of the tensor have different addresses.
    """

    rows: int
    tile: tuple[int, ...]
    strides: tuple[int, ...]
    boxes: tuple[TileBox, ...]
    regions: tuple[MemoryRegion, ...]
    injective: bool

    @property
    def complete(self) -> bool:
        """Whether all tiles are completely inside the tensor."""
        return len(self.boxes) == 1 and self.boxes[0].part is None and self.boxes[0].rows is _ALL

    def load(self, dtype: np.dtype[Any], padding: Any = 0) -> Array:
        """Return a copy of the tiles, shape (rows, *tile).

        Elements outside of the tensor get `padding`, which is broadcast to the tiles.
        """
        if self.complete:
            window, index = _window(self.boxes[0], self.regions[0], self.strides, dtype)
            return window.copy() if index is None else window[index]
        loaded = np.full((self.rows, *self.tile), padding, dtype)
        for box, region in zip(self.boxes, self.regions, strict=True):
            window, index = _window(box, region, self.strides, dtype)
            cells = (box.rows, *(box.part or ()))
            loaded[cells] = window if index is None else window[index]
        return loaded

    def store(self, raw: Array) -> None:
        """Write the parts inside the tensor; at one address, the last block's value stays."""
        if self.rows == 1:
            raw = raw[-1:]
        # NumPy is fastest if the last axis is the contiguous one.
        order = (
            0,
            *sorted(range(1, len(self.tile) + 1), key=lambda axis: -abs(self.strides[axis - 1])),
        )
        for box, region in zip(self.boxes, self.regions, strict=True):
            part = raw if len(raw) == 1 else raw[box.rows]
            if len(box.addresses) == 1:
                part = part[-1:]
            if box.part is not None:
                cells = (slice(None), *box.part)
                part = part[cells]
            window, index = _window(box, region, self.strides, raw.dtype, disjoint=True)
            window.transpose(order)[... if index is None else index] = part.transpose(order)


def plan(
    memory: Memory,
    tensor: Tensor,
    starts: Sequence[Array],
    tile: tuple[int, ...],
    dims: tuple[int, ...],
    size: int,
    checked: Sequence[bool],
    writing: bool,
) -> TilePlan | None:
    """Plan the access of tiles, or return None if single elements must be accessed.

    Args:
        memory: memory of the launch.
        tensor: the tensor.
        starts: index of the first element along each dimension of the tile, shape (blocks or 1,);
            it may be outside of the tensor.
        tile: extents of a tile.
        dims: the tensor's dimension of each dimension of the tile.
        size: size of an element in bytes.
        checked: per dimension of the tile, whether elements outside of the tensor are masked;
            otherwise they count as inside.
        writing: whether the memory will be written.
    """
    if len(tensor.strides) > 1 or (tensor.base & (size - 1)).any():
        return None
    steps = tensor.strides[0].tolist()
    strides = tuple(steps[dim] * size for dim in dims)
    if any(abs(stride) >= _FARTHEST for stride in strides):
        return None
    rows = max(len(tensor.base), len(tensor.extents), *(len(start) for start in starts))
    addresses = tensor.base
    for start, stride in zip(starts, strides, strict=True):
        addresses = addresses + start * stride
    boxes = _boxes(tensor.extents, starts, tile, dims, strides, addresses, rows, checked)
    if boxes is None:
        return None
    origin = int(tensor.base[0]) if len(tensor.base) == 1 else None
    regions = []
    for box in boxes:
        region = _region(memory, box, strides, size, origin, writing)
        if region is None:
            return None
        regions.append(region)
    return TilePlan(
        rows=rows,
        tile=tile,
        strides=strides,
        boxes=tuple(boxes),
        regions=tuple(regions),
        injective=not writing or _injective(tensor.extents.max(axis=0).tolist(), steps),
    )


def _boxes(
    extents: Array,
    starts: Sequence[Array],
    tile: tuple[int, ...],
    dims: tuple[int, ...],
    strides: tuple[int, ...],
    addresses: Array,
    rows: int,
    checked: Sequence[bool],
) -> list[TileBox] | None:
    """Return the nonempty boxes of all tiles, or None if there are too many."""
    edges = []
    for axis, (start, dim) in enumerate(zip(starts, dims, strict=True)):
        if not checked[axis]:
            continue
        limit, extent = np.maximum(extents[:, dim], 0), tile[axis]
        if len(start) == 1 and len(limit) == 1:
            first, last = int(start[0]), int(limit[0])
            if first < 0 or first + extent > last:
                low, high = min(max(-first, 0), extent), min(max(last - first, 0), extent)
                if low >= high:
                    return []
                edges.append((axis, np.array([low]), np.array([high])))
        elif start.min() < 0 or (start + extent > limit).any():
            edges.append((axis, np.clip(-start, 0, extent), np.clip(limit - start, 0, extent)))
    if not edges:
        return [TileBox(rows=_ALL, part=None, extents=tile, addresses=addresses)]
    return _cut(edges, tile, strides, addresses, rows)


def _cut(
    edges: list[tuple[int, Array, Array]],
    tile: tuple[int, ...],
    strides: tuple[int, ...],
    addresses: Array,
    rows: int,
) -> list[TileBox] | None:
    """Return the boxes of tiles across edges, or None if there are too many.

    Each item of `edges` is an axis with the ranges of the tiles' parts along it.
    """
    if math.prod((tile[axis] + 1) ** 2 for axis, _, _ in edges) >= 1 << 62:
        return None
    key = np.zeros(1, np.int64)
    for axis, low, high in edges:
        key = (key * (tile[axis] + 1) + low) * (tile[axis] + 1) + np.maximum(low, high)
    kinds, first, which = np.unique(
        np.broadcast_to(key, (rows,)), return_index=True, return_inverse=True
    )
    if len(kinds) > _MANY:
        return None
    boxes = []
    for kind, row in enumerate(first.tolist()):
        part, move = [slice(0, extent) for extent in tile], 0
        for axis, low, high in edges:
            part[axis] = slice(
                int(low[row if len(low) > 1 else 0]), int(high[row if len(high) > 1 else 0])
            )
            move += part[axis].start * strides[axis]
        extents = tuple(item.stop - item.start for item in part)
        if min(extents) > 0:
            chosen = _range(np.flatnonzero(which == kind))
            these = addresses if len(addresses) == 1 else addresses[chosen]
            whole = extents == tile
            boxes.append(
                TileBox(
                    rows=chosen,
                    part=None if whole else tuple(part),
                    extents=extents,
                    addresses=these + move,
                )
            )
    return boxes


def _injective(extents: list[int], strides: list[int]) -> bool:
    """Whether all elements have different addresses.

    Each stride must exceed the distance that the smaller strides reach.
    """
    reach = 0
    for stride, extent in sorted(zip(map(abs, strides), extents, strict=True)):
        if extent > 1 and stride <= reach:
            return False
        reach += stride * max(extent - 1, 0)
    return True


def _range(rows: Rows) -> slice | Rows:
    """Convert consecutive rows to a slice, which NumPy copies faster."""
    return (
        slice(int(rows[0]), int(rows[-1]) + 1)
        if int(rows[-1]) - int(rows[0]) + 1 == len(rows)
        else rows
    )


def _region(
    memory: Memory,
    box: TileBox,
    strides: tuple[int, ...],
    size: int,
    origin: int | None,
    writing: bool,
) -> MemoryRegion | None:
    """Return the region of a whole box, or None if there is nothing to access."""
    low, high = _bounds(box.addresses)
    for extent, stride in zip(box.extents, strides, strict=True):
        if stride < 0:
            low += stride * (extent - 1)
        else:
            high += stride * (extent - 1)
    region = memory.find(low if origin is None else origin, writing) or memory.find(low, writing)
    if (
        region is None
        or low < region.address
        or high + size > region.end
        or (writing and not region.writable)
    ):
        return None
    return region


def _bounds(addresses: Array) -> tuple[int, int]:
    if len(addresses) == 1:
        only = int(addresses[0])
        return only, only
    return int(addresses.min()), int(addresses.max())


def _window(
    box: TileBox,
    region: MemoryRegion,
    strides: tuple[int, ...],
    dtype: np.dtype[Any],
    disjoint: bool = False,
) -> tuple[Array, Array | None]:
    """Return a box's elements as a view of memory, and an index along its axis 0.

    Without an index (None), the view has the shape (blocks, *extents). If blocks may overlap and
    `disjoint` is set, the result has an index, which keeps the order of the blocks.
    """
    addresses, offset = box.addresses, int(box.addresses[0]) - region.address
    if len(addresses) == 1:
        return np.ndarray((1, *box.extents), dtype, region.data, offset, (0, *strides)), None
    step = int(addresses[1]) - int(addresses[0])
    if bool((np.diff(addresses) == step).all()) and not (
        disjoint and abs(step) < _span(box.extents, strides, dtype.itemsize)
    ):
        return np.ndarray(
            (len(addresses), *box.extents), dtype, region.data, offset, (step, *strides)
        ), None
    low, high = _bounds(addresses)
    unit = dtype.itemsize
    window: Array = np.ndarray(
        ((high - low) // unit + 1, *box.extents),
        dtype,
        region.data,
        low - region.address,
        (unit, *strides),
    )
    return window, (addresses - low) // unit


def _span(extents: tuple[int, ...], strides: tuple[int, ...], size: int) -> int:
    """Return the bytes from a box's lowest to its highest element."""
    return size + sum(
        abs(stride) * (extent - 1) for extent, stride in zip(extents, strides, strict=True)
    )
