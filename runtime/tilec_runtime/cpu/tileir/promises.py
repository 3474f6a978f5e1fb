"""What a kernel says about its own values: `assert`, and `assume`, which only an observer makes anything of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.frame import Binder, Body, Frame, Step, whole
from tilec_runtime.cpu.tileir.ir import Attribute, Block, Bounded, DivBy, Op, Pointer, SameElements, Tile, Type
from tilec_runtime.cpu.tileir.limits import fault
from tilec_runtime.cpu.tileir.values import Array, storage

# Gives for each row, or for all at once, whether the promise is broken.
_Check = Callable[[Any], Array]


def _assert(op: Op, _bodies: Callable[[Block], Body]) -> Step:
    condition, message = op.operand("condition"), str(op.attributes["message"])

    def step(frame: Frame) -> None:
        held = frame.get(condition)
        if held.all():
            return
        failed = ~whole(_rows(held, np.all), frame.size)
        observer = frame.launch.observer
        if observer is not None and observer.asserted(op, frame, failed):
            return
        row = int(np.flatnonzero(failed)[0])
        places = np.argwhere(~held[row if held.shape[0] > 1 else 0])
        where = f", first for element {tuple(int(place) for place in places[0])} of its tile" if held.ndim > 1 else ""
        raise fault(op, frame, row, f"the assertion failed{where}: {message}")

    return step


def _assume(op: Op, _bodies: Callable[[Block], Body]) -> Step:
    source, result = op.operand("value"), op.results[0]
    check = _check(op.attributes["predicate"], source.type)

    def step(frame: Frame) -> None:
        held = frame.get(source)
        frame.set(result, held)
        observer = frame.launch.observer
        if observer is not None:
            broken = check(held)
            if broken.any():
                observer.assumed(op, frame, whole(broken, frame.size))

    return step


def _check(predicate: Attribute, kind: Type) -> _Check:
    """What finds the rows that break a promise."""
    if not isinstance(kind, Tile):
        assert isinstance(predicate, DivBy)
        return lambda held: np.asarray(held.base % predicate.divisor != 0)
    step = storage_step(kind)
    match predicate:
        case Bounded(lower=lower, upper=upper):
            return lambda held: _rows(_beyond(held, lower, upper), np.any)
        case DivBy(divisor=divisor, every=None):
            return lambda held: _rows(_remainder(held, divisor) != 0, np.any)
        case DivBy(divisor=divisor, every=int(every), along=int(along)):
            return lambda held: _rows(_off_run(held, divisor, every, along + 1, step), np.any)
        case SameElements(values=groups):
            return lambda held: _rows(held != _leaders(held, groups), np.any)
    raise AssertionError(predicate)


def storage_step(kind: Tile) -> int:
    """How far the next element of a run is: one, or for pointers the size of what they point to."""
    return storage(kind.element.pointee).itemsize if isinstance(kind.element, Pointer) else 1


def _beyond(held: Array, lower: int | None, upper: int | None) -> Array:
    bad = np.zeros(held.shape, np.bool_)
    if lower is not None:
        bad |= held < lower
    if upper is not None:
        bad |= held > upper
    return bad


def _remainder(held: Array, divisor: int) -> Array:
    # Powers of two, which divide the bits whatever their sign.
    remainder: Array = held.astype(np.int64) & (divisor - 1)
    return remainder


def _off_run(held: Array, divisor: int, every: int, axis: int, step: int) -> Array:
    """Elements that break runs of `every` along an axis: the first one is divisible, each other one follows the one before."""
    values = np.moveaxis(held.astype(np.int64), axis, -1)
    place = np.arange(values.shape[-1]) % every
    first = values - place * step
    leader = np.take(values, np.arange(values.shape[-1]) // every * every, axis=-1)
    bad: Array = (first != leader) | (_remainder(leader, divisor) != 0)
    return bad


def _leaders(held: Array, groups: tuple[int, ...]) -> Array:
    """For each element the first one of its group."""
    for axis, size in enumerate(groups, start=1):
        held = np.take(held, np.arange(held.shape[axis]) // size * size, axis=axis)
    return held


def _rows(held: Array, combine: Callable[..., Any]) -> Array:
    """One answer for each row."""
    found: Array = combine(held.reshape(held.shape[0], -1), axis=1)
    return found


BINDERS: dict[str, Binder] = {"assert": _assert, "assume": _assume}
