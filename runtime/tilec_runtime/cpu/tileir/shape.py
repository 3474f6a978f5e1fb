"""Constants, ranges, reshapes, parts of tiles, `select`, and block indices.

Results are NumPy views if no element has to move.
"""

from __future__ import annotations

import math

import numpy as np

from tilec_runtime.cpu.tileir.frame import Binder, Bodies, Frame, Step, coordinates, whole
from tilec_runtime.cpu.tileir.ir import Op, Value
from tilec_runtime.cpu.tileir.steps import compute, tile
from tilec_runtime.cpu.tileir.values import Array, Rows, elements, storage


def _constant(op: Op, _: Bodies) -> Step:
    result = op.results[0]
    held = elements(tile(result), op.attributes["value"])[None]
    return lambda frame: frame.set(result, held)


def _iota(op: Op, _: Bodies) -> Step:
    result = op.results[0]
    kind = tile(result)
    # Elements count from zero, and wrap if they exceed the type.
    held = (
        np.arange(math.prod(kind.shape), dtype=np.int64)
        .astype(storage(kind.element))
        .reshape(1, *kind.shape)
    )
    held.flags.writeable = False
    return lambda frame: frame.set(result, held)


def _broadcast(op: Op, _: Bodies) -> Step:
    shape = tile(op.results[0]).shape
    return compute(op, lambda x: np.broadcast_to(x, (x.shape[0], *shape)), "source")


def _reshape(op: Op, _: Bodies) -> Step:
    shape = tile(op.results[0]).shape
    return compute(op, lambda x: x.reshape(x.shape[0], *shape), "source")


def _permute(op: Op, _: Bodies) -> Step:
    axes = (0, *[axis + 1 for axis in op.attributes["permutation"]])
    return compute(op, lambda x: x.transpose(axes), "source")


def _cat(op: Op, _: Bodies) -> Step:
    axis = op.attributes["dim"]

    def cat(x: Array, y: Array) -> Array:
        size = max(x.shape[0], y.shape[0])
        return np.concatenate((whole(x, size), whole(y, size)), axis=axis + 1)

    return compute(op, cat, "lhs", "rhs")


def _select(op: Op, _: Bodies) -> Step:
    held = storage(tile(op.results[0]).element)
    bits = np.dtype(f"i{held.itemsize}")

    def select(condition: Array, if_true: Array, if_false: Array) -> Array:
        # Select by bit operations: several times faster than `where`, whose branches are hard to
        # predict.
        first, second = if_true.view(bits), if_false.view(bits)
        result = np.bitwise_xor(first, second)
        mask = np.negative(condition.view(np.int8), dtype=bits)
        if result.shape == np.broadcast_shapes(result.shape, mask.shape):
            result &= mask
        else:
            result = result & mask
        result ^= second
        return result.view(held)

    return compute(op, select, "condition", "if_true", "if_false")


class _Parts:
    """The equal parts of a tile, and the part that each block selects."""

    def __init__(self, large: Value, small: Value, indices: tuple[Value, ...]) -> None:
        self.part = tile(small).shape
        self.counts = tuple(
            have // want for have, want in zip(tile(large).shape, self.part, strict=True)
        )
        self._indices = indices
        rank = len(self.part)
        # Axes: blocks, the part's index per dimension, the position in the part per dimension.
        self.cut = tuple(
            extent for pair in zip(self.counts, self.part, strict=True) for extent in pair
        )
        self.order = (0, *range(1, 2 * rank + 1, 2), *range(2, 2 * rank + 1, 2))

    def places(self, frame: Frame) -> list[Rows]:
        """Return the part's index per dimension, clipped, shape (blocks or 1,)."""
        starts = []
        for index, count in zip(self._indices, self.counts, strict=True):
            held = frame.get(index)
            inside = np.clip(held, 0, count - 1).astype(np.intp)
            starts.append(
                inside[:1] if inside.shape[0] > 1 and (inside == inside[0]).all() else inside
            )
        return starts

    def split(self, held: Array) -> Array:
        """Return a view of a tile with axes of the parts' indices after the blocks."""
        return held.reshape(held.shape[0], *self.cut).transpose(self.order)


def _key(rows: Rows, places: list[Rows]) -> tuple[Rows, ...]:
    return (rows, *places)


def _extract(op: Op, _: Bodies) -> Step:
    source, result = op.operand("source"), op.results[0]
    parts = _Parts(source, result, op.operands["indices"])

    def step(frame: Frame) -> None:
        held, places = frame.get(source), parts.places(frame)
        if all(place.shape[0] == 1 for place in places):
            where = (
                slice(None),
                *[
                    slice(int(p[0]) * n, (int(p[0]) + 1) * n)
                    for p, n in zip(places, parts.part, strict=True)
                ],
            )
            frame.set(result, held[where])
            return
        rows = np.arange(frame.size) if held.shape[0] > 1 else np.zeros(1, np.intp)
        frame.set(result, parts.split(held)[_key(rows, places)])

    return step


def _insert(op: Op, _: Bodies) -> Step:
    source, destination, result = op.operand("source"), op.operand("destination"), op.results[0]
    parts = _Parts(destination, source, op.operands["indices"])

    def step(frame: Frame) -> None:
        held, places, part = frame.get(destination), parts.places(frame), frame.get(source)
        size = max(held.shape[0], part.shape[0], *[place.shape[0] for place in places])
        changed = whole(held, size).copy()
        parts.split(changed)[_key(np.arange(size), places)] = part
        frame.set(result, changed)

    return step


def _block_id(op: Op, _bodies: Bodies) -> Step:
    results = op.results

    def step(frame: Frame) -> None:
        for result, place in zip(
            results, coordinates(frame.launch.grid, frame.blocks), strict=True
        ):
            held = place.astype(np.int32)
            # A single row for all blocks makes dependent operations cheaper.
            frame.set(result, held[:1] if held[0] == held[-1] and (held == held[0]).all() else held)

    return step


def _grid_size(op: Op, _bodies: Bodies) -> Step:
    results = op.results

    def step(frame: Frame) -> None:
        for result, extent in zip(results, frame.launch.grid, strict=True):
            frame.set(result, np.array([extent], np.int32))

    return step


def _token(op: Op, _bodies: Bodies) -> Step:
    # Tokens need no work, since the operations of a block run in program order.
    results = op.results

    def step(frame: Frame) -> None:
        for result in results:
            frame.set(result, None)

    return step


BINDERS: dict[str, Binder] = {
    "constant": _constant,
    "iota": _iota,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "permute": _permute,
    "cat": _cat,
    "select": _select,
    "extract": _extract,
    "insert": _insert,
    "get_tile_block_id": _block_id,
    "get_num_tile_blocks": _grid_size,
    **dict.fromkeys(
        (
            "make_token",
            "join_tokens",
            "gdc_launch_dependents_tko",
            "gdc_wait_tko",
            "memory_fence_alias_tko",
        ),
        _token,
    ),
}
