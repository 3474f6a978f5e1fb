"""Copies between tensors of any strides, as boxes for calls of the driver.

This module knows no device.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

from tilec_runtime.device.layout import Shape, TensorFacts, as_bytes, contiguous_stride
from tilec_runtime.device.seam import CopyBox
from tilec_runtime.errors import TensorError
from tilec_runtime.model.dtype import DTYPES

# Most driver calls of one copy, and the largest pitch of rows in bytes.
MOST_CALLS = 4096
_MOST_PITCH = 2**31 - 1


class ByteLayout(NamedTuple):
    """A tensor's layout in bytes.

    Attributes:
        shape: extents.
        stride: in bytes.
        unit: bytes of an element, or of a pair of packed elements.
    """

    shape: Shape
    stride: Shape
    unit: int

    @property
    def dense(self) -> ByteLayout:
        """The same extents without gaps, the last dimension innermost."""
        return ByteLayout(
            self.shape, tuple(step * self.unit for step in contiguous_stride(self.shape)), self.unit
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the contents."""
        return math.prod(self.shape) * self.unit

    @property
    def reach(self) -> int:
        """Bytes from the first byte to behind the last."""
        if 0 in self.shape:
            return 0
        return (
            sum((extent - 1) * step for extent, step in zip(self.shape, self.stride, strict=True))
            + self.unit
        )


class CopyCall(NamedTuple):
    """One call: byte offsets in target and source, and the box that it copies."""

    target: int
    source: int
    box: CopyBox


class _Dim(NamedTuple):
    extent: int
    source: int
    target: int


def byte_layout(facts: TensorFacts) -> ByteLayout:
    """Return the layout of a tensor in bytes.

    For a packed dtype the last dimension is dense, and pairs of elements share a byte.
    """
    facts = as_bytes(facts)
    size = DTYPES[facts.dtype].bytes
    return ByteLayout(facts.shape, tuple(step * size for step in facts.stride), size)


def boxes(target: ByteLayout, source: ByteLayout) -> list[CopyCall]:
    """Return the calls that copy one tensor to another of the same extents.

    Raises:
        TensorError: they would be more than `MOST_CALLS`.
    """
    if 0 in source.shape:
        return []
    dims = _merged(source.shape, source.stride, target.stride)
    width = source.unit
    if dims and dims[-1].source == dims[-1].target == width:
        width *= dims.pop().extent
    rows, slices = _chosen(dims, width)
    rest = [dim for dim in dims if dim is not rows and dim is not slices]
    calls = math.prod(dim.extent for dim in rest)
    if calls > MOST_CALLS:
        message = f"a copy from strides {source.stride} to {target.stride} (bytes) of shape {source.shape} takes {calls} calls of the driver"
        raise TensorError(
            message,
            fix=f"copy parts of it ({MOST_CALLS} calls at most), or write a kernel that does",
        )
    one = _Dim(1, width, width)
    rows = rows or one
    box = CopyBox(
        width=width,
        rows=rows.extent,
        slices=slices.extent if slices else 1,
        target_pitch=rows.target,
        source_pitch=rows.source,
        target_slice=slices.target if slices else rows.target * rows.extent,
        source_slice=slices.source if slices else rows.source * rows.extent,
    )
    return [CopyCall(to, of, box) for to, of in _offsets(rest)]


def _merged(shape: Shape, source: Shape, target: Shape) -> list[_Dim]:
    """Merge dimensions that are contiguous on both sides, the outermost first."""
    dims = [_Dim(*dim) for dim in zip(shape, source, target, strict=True) if dim[0] > 1]
    dims.sort(key=lambda dim: (-dim.target, -dim.source))
    merged: list[_Dim] = []
    for dim in dims:
        if merged and (merged[-1].source, merged[-1].target) == (
            dim.source * dim.extent,
            dim.target * dim.extent,
        ):
            dim = _Dim(merged.pop().extent * dim.extent, dim.source, dim.target)
        merged.append(dim)
    return merged


def _chosen(dims: list[_Dim], width: int) -> tuple[_Dim | None, _Dim | None]:
    """Choose the dimensions for rows and slices of a call that leave the fewest calls."""
    usable = [
        dim
        for dim in dims
        if all(width <= step <= _MOST_PITCH for step in (dim.source, dim.target))
    ]
    pairs = [
        (rows, slices)
        for rows, slices in itertools.permutations(usable, 2)
        if _nested(rows, slices)
    ]
    if pairs:
        return max(pairs, key=lambda pair: pair[0].extent * pair[1].extent)
    return max(usable, key=lambda dim: dim.extent, default=None), None


def _nested(rows: _Dim, slices: _Dim) -> bool:
    """Whether a slice is a whole number of rows on both sides, with room for all rows."""
    ends = ((rows.source, slices.source), (rows.target, slices.target))
    return all(apart % pitch == 0 and apart // pitch >= rows.extent for pitch, apart in ends)


def _offsets(dims: list[_Dim]) -> Iterator[tuple[int, int]]:
    for index in itertools.product(*(range(dim.extent) for dim in dims)):
        pairs = list(zip(index, dims, strict=True))
        yield sum(at * dim.target for at, dim in pairs), sum(at * dim.source for at, dim in pairs)
