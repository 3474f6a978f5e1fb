"""Arithmetic of shapes and strides: reshaping, slicing, tiling.

Strides are in elements.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from tilec_runtime.device.layout import Shape, contiguous_stride, settled_stride
from tilec_runtime.errors import TensorError
from tilec_runtime.model.dtype import DTYPES

# Sequences of ints that are not shapes.
_BYTES = (bytes, bytearray, memoryview)


def checked_shape(shape: Any) -> Shape:
    """Return an int or a sequence of ints as a shape.

    Raises:
        TensorError: it is not a shape, or an extent is negative.
    """
    try:
        given = (
            tuple(shape)
            if isinstance(shape, Sequence) and not isinstance(shape, _BYTES)
            else (shape,)
        )
        extents = tuple([operator.index(extent) for extent in given])
    except TypeError as error:
        raise TensorError(f"{shape!r} is no shape", fix="pass an int or a tuple of ints") from error
    if bool in map(type, given):
        raise TensorError(
            f"{shape!r} is no shape: a bool is no extent", fix="pass an int or a tuple of ints"
        )
    if any(extent < 0 for extent in extents):
        raise TensorError(f"shape {extents} has a negative extent")
    return extents


def checked_packing(dtype: str, shape: Shape, stride: Shape | None = None, offset: int = 0) -> None:
    """Check that a tensor of a packed dtype has whole bytes in its last dimension.

    Those bytes have to be contiguous.

    Args:
        dtype: tilec's name; a dtype that is not packed passes.
        shape: extents.
        stride: in elements; None for a contiguous tensor.
        offset: of the first element from the start of a byte, in elements.

    Raises:
        TensorError: it does not.
    """
    each = DTYPES[dtype].per_byte
    if each == 1 or 0 in shape:
        return
    if not shape or shape[-1] % each:
        message = f"a tensor of {dtype} and shape {shape} does not fill its bytes: {each} elements share one"
        raise TensorError(message, fix=f"let the last dimension be a multiple of {each}")
    steps = contiguous_stride(shape) if stride is None else stride
    if steps[-1] != 1 or offset % each or any(step % each for step in steps[:-1]):
        message = f"a tensor of {dtype} with strides {steps} starts within a byte or leaves elements out, and {each} share each byte"
        raise TensorError(
            message,
            fix=f"leave the last dimension whole, or take ranges of it that start and end at multiples of {each}",
        )


def is_contiguous(shape: Shape, stride: Shape) -> bool:
    """Whether the layout is dense, with the last dimension innermost."""
    return settled_stride(shape, stride) == contiguous_stride(shape)


def reshaped(shape: Shape, stride: Shape, wanted: Any) -> Shape:
    """Return the new shape of a contiguous tensor.

    One extent of -1 is computed from the others.

    Raises:
        TensorError: the number of elements differs, or the tensor is not contiguous.
    """
    new = _filled(wanted, math.prod(shape))
    if math.prod(new) != math.prod(shape):
        message = f"a tensor of shape {shape} has {math.prod(shape)} elements, and shape {new} has {math.prod(new)}"
        raise TensorError(message, fix="keep the number of elements")
    if not is_contiguous(shape, stride):
        message = f"a tensor of shape {shape} with strides {stride} is not contiguous, and cannot take shape {new} without a copy"
        raise TensorError(message, fix="reshape before slicing, or work on a contiguous copy (dup)")
    return new


def _filled(wanted: Any, size: int) -> Shape:
    extents = tuple(wanted) if isinstance(wanted, Sequence) else (wanted,)
    if not any(type(extent) is int and extent == -1 for extent in extents):
        return checked_shape(wanted)
    known = [extent for extent in extents if extent != -1]
    rest = math.prod(checked_shape(known))
    if len(known) != len(extents) - 1:
        raise TensorError(f"shape {extents} leaves two extents open", fix="leave one open at most")
    if rest == 0 or size % rest:
        raise TensorError(f"shape {extents} does not divide {size} elements")
    return tuple(size // rest if extent == -1 else int(extent) for extent in extents)


def sliced(shape: Shape, stride: Shape, index: Any) -> tuple[Shape, Shape, int]:
    """Return shape, strides and offset (in elements) of `t[index]`, as in NumPy.

    An index is a slice with a positive step, an int (which drops its dimension), an Ellipsis, or a
    tuple of these. Unlike in NumPy, the bounds of a slice have to lie inside the tensor: bounds
    beyond it are usually a mistake.

    Raises:
        TensorError: there are more indices than dimensions, or an index does not fit.
    """
    parts = _expanded(index if isinstance(index, tuple) else (index,), len(shape), shape)
    new_shape, new_stride, offset = [], [], 0
    for dim, part in enumerate(parts):
        extent, step = shape[dim], stride[dim]
        if isinstance(part, slice):
            start, stop, jump = _bounds(part, extent, dim)
            offset += start * step if stop > start else 0
            new_shape.append(max(0, -(-(stop - start) // jump)))
            new_stride.append(step * jump)
            continue
        position = _index(part, extent, dim)
        offset += position * step
    extents = tuple(new_shape)
    return extents, settled_stride(extents, tuple(new_stride)), 0 if 0 in extents else offset


def _expanded(parts: tuple[Any, ...], rank: int, shape: Shape) -> tuple[Any, ...]:
    dots = [index for index, part in enumerate(parts) if part is Ellipsis]
    count = len(parts) - len(dots)
    if len(dots) > 1:
        raise TensorError("an index has one Ellipsis at most")
    if count > rank:
        raise TensorError(f"{count} indices for a tensor of {rank} dimensions (shape {shape})")
    fill = (slice(None),) * (rank - count)
    at = dots[0] if dots else len(parts)
    return (*parts[:at], *fill, *parts[at + 1 :])


def _bounds(part: slice, extent: int, dim: int) -> tuple[int, int, int]:
    try:
        jump = 1 if part.step is None else operator.index(part.step)
        start = 0 if part.start is None else operator.index(part.start)
        stop = extent if part.stop is None else operator.index(part.stop)
    except TypeError as error:
        raise TensorError(
            f"{part} is no range of dimension {dim}", fix="slice with ints"
        ) from error
    if jump < 1:
        raise TensorError(
            f"{part} has step {jump} in dimension {dim}", fix="slice with a positive step"
        )
    if not (-extent <= start <= extent and -extent <= stop <= extent):
        raise TensorError(
            f"range {start}:{stop} is out of dimension {dim}, which has {extent} elements"
        )
    return (start + extent if start < 0 else start), (stop + extent if stop < 0 else stop), jump


def _index(part: Any, extent: int, dim: int) -> int:
    try:
        index = operator.index(part)
    except TypeError as error:
        raise TensorError(
            f"{part!r} is no index of a tensor", fix="index with ints and slices"
        ) from error
    if isinstance(part, bool) or not -extent <= index < extent:
        raise TensorError(f"index {part} is out of dimension {dim}, which has {extent} elements")
    return index + extent if index < 0 else index


def reinterpreted(shape: Shape, stride: Shape, sizes: tuple[int, int], wanted: Any) -> Shape:
    """Return the shape of a contiguous tensor whose bytes are read as another dtype.

    Args:
        shape: extents.
        stride: in elements.
        sizes: bits of an element of the old and the new dtype.
        wanted: the new shape; one extent may be -1.

    Raises:
        TensorError: the number of bytes differs, or the tensor is not contiguous.
    """
    nbytes = math.prod(shape) * sizes[0] // 8
    if not is_contiguous(shape, stride):
        raise TensorError(
            f"a tensor of shape {shape} with strides {stride} is not contiguous, and cannot be reinterpreted"
        )
    if nbytes * 8 % sizes[1]:
        raise TensorError(
            f"{nbytes} bytes are no whole number of elements of {_size_text(sizes[1])}"
        )
    new = _filled(wanted, nbytes * 8 // sizes[1])
    if math.prod(new) * sizes[1] != nbytes * 8:
        needed = _size_text(math.prod(new) * sizes[1])
        message = f"a tensor of {nbytes} bytes cannot be of shape {new} with elements of {_size_text(sizes[1])}: those are {needed}"
        raise TensorError(message, fix="keep the number of bytes")
    return new


def _size_text(bits: int) -> str:
    return f"{bits} bits" if bits % 8 else f"{bits // 8} bytes"


def grid_of(shape: Shape, tile: Shape) -> Shape:
    """Return the number of tiles that cover a tensor along each dimension.

    The last tile of a dimension may extend beyond the tensor.

    Raises:
        TensorError: the tile has another rank, or an extent below 1.
    """
    if len(tile) != len(shape):
        raise TensorError(
            f"a tile of shape {tile} does not divide a tensor of shape {shape}",
            fix="give the tile one extent per dimension",
        )
    if any(extent < 1 for extent in tile):
        raise TensorError(f"a tile of shape {tile} has an extent below 1")
    return tuple(-(-extent // size) for extent, size in zip(shape, tile, strict=True))
