"""Views of tensors: values, operations, and the positions of their tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tilec_runtime.cpu.tileir.frame import Binder, Bodies, Frame, Step
from tilec_runtime.cpu.tileir.ir import (
    Op,
    TensorView,
    Value,
    View,
)
from tilec_runtime.cpu.tileir.steps import element
from tilec_runtime.cpu.tileir.values import Array, storage

# Larger indices are outside of every tensor; clipping them prevents an overflow of 64 bits.
_FAR = 1 << 40
_FARTHEST = 1 << 62


class Tensor(NamedTuple):
    """A tensor in memory, or a view of it, whose kind only its type has.

    Attributes:
        base: address of the element at the origin, shape (blocks or 1,).
        extents, strides: extents and strides in elements, shape (blocks or 1, rank).
    """

    base: Array
    extents: Array
    strides: Array


def view_type(op: Op, name: str = "view") -> View:
    """Return the type of an operand that is a view with tiles."""
    kind = op.operand(name).type
    assert isinstance(kind, View)
    return kind


def starts_of(view: View, op: Op) -> Callable[[Frame], list[Array]]:
    """Return a function of the first index along each dimension of the tile.

    Its shape is (blocks or 1,), with an additional axis of positions for a sparse dimension.
    """
    index, steps = op.operands["index"], view.steps

    def starts(frame: Frame) -> list[Array]:
        return [_start(frame.get(value), step) for value, step in zip(index, steps, strict=True)]

    return starts


def _start(held: Array, step: int) -> Array:
    if held.dtype == np.int64:
        far = min(_FAR, _FARTHEST // step)
        held = np.clip(held, -far, far)
    return held.astype(np.int64) * step if step != 1 else held.astype(np.int64)


def _make_tensor_view(op: Op, _bodies: Bodies) -> Step:
    kind, result, base = op.results[0].type, op.results[0], op.operand("base")
    assert isinstance(kind, TensorView)
    shape = _numbers(kind.shape, op.operands.get("shape", ()))
    strides = _numbers(kind.strides, op.operands.get("strides", ()))

    def step(frame: Frame) -> None:
        pointer = frame.get(base)
        frame.set(result, Tensor(_one(pointer.reshape(-1)), shape(frame), strides(frame)))

    return step


def _numbers(fixed: tuple[int | None, ...], dynamic: tuple[Value, ...]) -> Callable[[Frame], Array]:
    """Return a function of a tensor's extents or strides, (blocks or 1, rank).

    They come from the type, or from values if the type leaves them open.
    """
    free = [place for place, number in enumerate(fixed) if number is None]
    known = np.array([[0 if number is None else number for number in fixed]], np.int64)
    if not free:
        return lambda _frame: known

    def numbers(frame: Frame) -> Array:
        held = [frame.get(value) for value in dynamic]
        repeated = np.repeat(known, max(len(item) for item in held), axis=0)
        for place, item in zip(free, held, strict=True):
            repeated[:, place] = item
        return _one(repeated)

    return numbers


def _one(rows: Array) -> Array:
    """Reduce equal rows to one row, so that it is computed once for all blocks."""
    return rows[:1] if len(rows) > 1 and bool((rows == rows[:1]).all()) else rows


def _make_view(op: Op, _bodies: Bodies) -> Step:
    source, result = op.operand("tensor"), op.results[0]

    def step(frame: Frame) -> None:
        frame.set(result, frame.get(source))

    return step


def _get_tensor_shape(op: Op, _bodies: Bodies) -> Step:
    kind = op.operand("source").type
    assert isinstance(kind, TensorView)
    return _extents(op, tuple(range(len(kind.shape))), (1,) * len(kind.shape))


def _get_index_space_shape(op: Op, _bodies: Bodies) -> Step:
    view = view_type(op, "source")
    return _extents(op, view.dims, view.steps)


def _extents(op: Op, dims: tuple[int, ...], steps: tuple[int, ...]) -> Step:
    """Build a step for the extents of a tensor, divided by `steps`, rounded up."""
    source = op.operand("source")
    results = [(result, storage(element(result))) for result in op.results]

    def step(frame: Frame) -> None:
        extents = np.maximum(frame.get(source).extents, 0)
        for (result, dtype), dim, by in zip(results, dims, steps, strict=True):
            extent = extents[:, dim]
            frame.set(result, (-(-extent // by) if by != 1 else extent).astype(dtype))

    return step


BINDERS: dict[str, Binder] = {
    "make_tensor_view": _make_tensor_view,
    "make_partition_view": _make_view,
    "make_strided_view": _make_view,
    "make_gather_scatter_view": _make_view,
    "get_tensor_shape": _get_tensor_shape,
    "get_index_space_shape": _get_index_space_shape,
}
