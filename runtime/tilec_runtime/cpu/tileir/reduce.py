"""Reductions and scans.

A region with one known operation uses NumPy's functions. Any other region runs for all pairs of
neighbours at once. Sums are pairwise with each partial sum rounded to the type, so that an element
takes part in at most 11 + log2 n roundings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir import integer
from tilec_runtime.cpu.tileir.floats import EXTREMES, extreme
from tilec_runtime.cpu.tileir.formats import narrow, widen
from tilec_runtime.cpu.tileir.frame import Binder, Bodies, Body, Frame, Step, whole
from tilec_runtime.cpu.tileir.ir import Op, Overflow, Rounding, Scalar, Signedness
from tilec_runtime.cpu.tileir.steps import element, observed
from tilec_runtime.cpu.tileir.values import Array

Combine = Callable[[Array, Array], Array]
# Combines two tuples of tiles, one tile per operand: earlier elements, later elements.
Pairwise = Callable[[tuple[Array, ...], tuple[Array, ...]], tuple[Array, ...]]

_EXACT_FLOATS = {"maxf", "minf"}


def _bind(op: Op, bodies: Bodies) -> Step:
    axis = int(op.attributes["dim"]) + 1  # the first axis counts blocks
    backwards = bool(op.attributes.get("reverse", False))
    known = _known(op) if len(op.results) == 1 else None
    if known is not None:
        source = op.operands["operands"][0]
        function = (_reduction if op.name == "reduce" else _accumulation)(known, element(source))
    else:
        body = bodies(op.regions[0])
        by_pairs = _tree if op.name == "reduce" else _doubling

    def step(frame: Frame) -> None:
        if known is not None:
            tiles: tuple[Array, ...] = (frame.get(source),)
            turned = np.flip(tiles[0], axis) if backwards else tiles[0]
            reduced: tuple[Array, ...] = (function(turned, axis),)
        else:
            tiles, combine = _region(op, body, frame)
            reduced = by_pairs(
                tuple(np.flip(held, axis) for held in tiles) if backwards else tiles, axis, combine
            )
        for result, held in zip(op.results, reduced, strict=True):
            frame.set(result, np.flip(held, axis) if backwards else held)

    return observed(op, step)


def _known(op: Op) -> Op | None:
    """Return the single commutative operation of a region, or None if it has others."""
    block = op.regions[0]
    if len(block.args) != 2 or len(block.ops) != 2:
        return None
    inner, last = block.ops
    operands = [value for values in inner.operands.values() for value in values]
    if (
        last.operands.get("values", ()) != inner.results
        or inner.name not in _COMBINING
        or set(operands) != set(block.args)
    ):
        return None
    plain = {"flush_to_zero": False, "rounding": Rounding.NEAREST_EVEN, "overflow": Overflow.NONE}
    if len(operands) != 2 or any(
        inner.attributes.get(name, usual) != usual for name, usual in plain.items()
    ):
        return None
    return inner


def _reduction(inner: Op, kind: Scalar) -> Callable[[Array, int], Array]:
    """Return the reduction along an axis."""
    name = inner.name
    if name in _EXACT_FLOATS:
        return _extreme(name, kind, bool(inner.attributes.get("propagate_nan", False)))
    if name in ("addf", "mulf"):
        return _rounded_tree(name, kind)
    combine = integer.binary(name, kind, inner.attributes.get("signedness", Signedness.SIGNED))
    ufunc = _UFUNCS.get(name)
    if kind in (Scalar.I1, Scalar.I4) or ufunc is None:
        return lambda held, axis: halving(held, axis, combine)
    if inner.attributes.get("signedness", Signedness.SIGNED) is Signedness.UNSIGNED:
        return lambda held, axis: ufunc.reduce(integer.unsigned(held, kind), axis=axis).view(
            held.dtype
        )
    return lambda held, axis: ufunc.reduce(held, axis=axis, dtype=held.dtype)


def _extreme(name: str, kind: Scalar, propagate: bool) -> Callable[[Array, int], Array]:
    largest = name == "maxf"
    ufunc = EXTREMES[largest, propagate]

    def reduce(held: Array, axis: int) -> Array:
        numbers = widen(held, kind)
        result: Array = ufunc.reduce(numbers, axis=axis)
        zero = result == 0
        if zero.any():
            # +0 is greater than -0.
            negative = np.signbit(numbers) & (numbers == 0)
            positive = ~np.signbit(numbers) & (numbers == 0)
            minus = ~positive.any(axis=axis) if largest else negative.any(axis=axis)
            result = np.where(zero, np.where(minus, -0.0, 0.0), result).astype(result.dtype)
        return narrow(result, kind)

    return reduce


def _rounded_tree(name: str, kind: Scalar) -> Callable[[Array, int], Array]:
    ufunc = np.add if name == "addf" else np.multiply
    if kind in (Scalar.F32, Scalar.F64):
        if name == "addf":
            # Along the last axis NumPy's sum is pairwise and fastest. Its order depends on the
            # layout, which is therefore always contiguous.
            return lambda held, axis: (
                ufunc.reduce(np.ascontiguousarray(held), axis=axis)
                if axis == held.ndim - 1
                else halving(held, axis, ufunc)
            )
        return lambda held, axis: halving(held, axis, ufunc)

    def combine(x: Array, y: Array) -> Array:
        return widen(narrow(ufunc(x, y), kind), kind)

    return lambda held, axis: narrow(halving(widen(held, kind), axis, combine), kind)


def halving(held: Array, axis: int, combine: Combine) -> Array:
    """Reduce an axis by repeatedly combining its first half with its second half.

    The operation must be commutative.
    """
    rest = held
    while rest.shape[axis] > 1:
        number = rest.shape[axis]
        half = number // 2
        joined = combine(_slice(rest, axis, 0, half), _slice(rest, axis, half, 2 * half))
        rest = (
            joined
            if number % 2 == 0
            else np.concatenate((joined, _slice(rest, axis, 2 * half, number)), axis=axis)
        )
    return rest.reshape(*held.shape[:axis], *held.shape[axis + 1 :])


def _accumulation(inner: Op, kind: Scalar) -> Callable[[Array, int], Array]:
    """Return the scan along an axis, which combines each element with all before it."""
    name = inner.name
    signedness = inner.attributes.get("signedness", Signedness.SIGNED)
    if name in _FLOATS:
        ufunc = _FLOATS[name]
        if kind in (Scalar.F32, Scalar.F64):
            return lambda held, axis: ufunc.accumulate(held, axis=axis)

        def combine(x: Array, y: Array) -> Array:
            return widen(narrow(ufunc(x, y), kind), kind)

        return lambda held, axis: narrow(
            _doubling((widen(held, kind),), axis, lambda x, y: (combine(x[0], y[0]),))[0], kind
        )
    if kind.is_float:
        function = extreme(
            name, kind, bool(inner.attributes.get("propagate_nan", False)), flush=False
        )
    else:
        function = integer.binary(name, kind, signedness)
    return lambda held, axis: _doubling((held,), axis, lambda x, y: (function(x[0], y[0]),))[0]


def _region(op: Op, body: Body, frame: Frame) -> tuple[tuple[Array, ...], Pairwise]:
    """Return the operands' tiles, one row per block, and a function of pairs."""
    sources = op.operands["operands"]
    args = op.regions[0].args
    held = [frame.get(source) for source in sources]
    size = max(item.shape[0] for item in held)
    if size == 1 and frame.size > 1 and len(op.regions[0].ops) > 0:
        size = frame.size  # values captured by the region may differ between blocks
    tiles = tuple(whole(item, size) for item in held)

    def combine(earlier: tuple[Array, ...], later: tuple[Array, ...]) -> tuple[Array, ...]:
        shape = earlier[0].shape
        each = earlier[0].size // size
        inner = frame.narrow(np.repeat(np.arange(size), each))
        for index, (before, after) in enumerate(zip(earlier, later, strict=True)):
            inner.set(args[2 * index], after.reshape(-1))
            inner.set(args[2 * index + 1], before.reshape(-1))
        return tuple(whole(value, size * each).reshape(shape) for value in body(inner))

    return tiles, combine


def _tree(tiles: tuple[Array, ...], axis: int, combine: Pairwise) -> tuple[Array, ...]:
    """Reduce an axis by repeatedly combining neighbours, which keeps their order."""
    while tiles[0].shape[axis] > 1:
        number = tiles[0].shape[axis]
        even = number - number % 2
        earlier = tuple(_slice(held, axis, 0, even, 2) for held in tiles)
        later = tuple(_slice(held, axis, 1, even, 2) for held in tiles)
        joined = combine(earlier, later)
        if even < number:
            joined = tuple(
                np.concatenate((new, _slice(old, axis, even, number)), axis=axis)
                for new, old in zip(joined, tiles, strict=True)
            )
        tiles = joined
    return tuple(held.reshape(*held.shape[:axis], *held.shape[axis + 1 :]) for held in tiles)


def _doubling(tiles: tuple[Array, ...], axis: int, combine: Pairwise) -> tuple[Array, ...]:
    """Scan by doubling: combine each element with the 1, 2, 4, ... before it."""
    number = tiles[0].shape[axis]
    distance = 1
    while distance < number:
        earlier = tuple(_slice(held, axis, 0, number - distance) for held in tiles)
        later = tuple(_slice(held, axis, distance, number) for held in tiles)
        joined = combine(earlier, later)
        tiles = tuple(
            np.concatenate((_slice(old, axis, 0, distance), new), axis=axis)
            for old, new in zip(tiles, joined, strict=True)
        )
        distance *= 2
    return tiles


def _slice(held: Array, axis: int, start: int, stop: int, step: int = 1) -> Array:
    return held[(slice(None),) * axis + (slice(start, stop, step),)]


_FLOATS: dict[str, Any] = {"addf": np.add, "mulf": np.multiply}
_UFUNCS: dict[str, Any] = {
    "addi": np.add,
    "muli": np.multiply,
    "maxi": np.maximum,
    "mini": np.minimum,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
}
_COMBINING = frozenset({*_FLOATS, *_EXACT_FLOATS, *_UFUNCS})

BINDERS: dict[str, Binder] = {"reduce": _bind, "scan": _bind}
