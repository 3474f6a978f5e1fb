"""Finds where an integer operation wrapped that promised not to, when an observer wants to know."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilec_runtime.cpu.tileir.frame import whole
from tilec_runtime.cpu.tileir.ir import Op, Overflow, Scalar
from tilec_runtime.cpu.tileir.steps import attribute, element
from tilec_runtime.cpu.tileir.values import Array

if TYPE_CHECKING:
    from tilec_runtime.cpu.tileir.frame import Frame, Step

_EXACT = 2**53  # float64 holds all whole numbers below it
_SIGNED = frozenset({Overflow.NSW, Overflow.NW})
_UNSIGNED = frozenset({Overflow.NUW, Overflow.NW})


def watched(op: Op, step: Step) -> Step:
    """The step of an operation, which tells an observer of broken promises where the operation makes any."""
    promise = attribute(op, "overflow", Overflow.NONE)
    if promise is Overflow.NONE or op.name not in _WRAPPED:
        return step
    sources = [values[0] for values in op.operands.values()]

    def run(frame: Frame) -> None:
        step(frame)
        observer = frame.launch.observer
        if observer is None:
            return
        tiles = [frame.get(source) for source in sources]
        wrapped = broken(op.name, promise, element(sources[0]), element(op.results[0]), *tiles)
        blocks: Array = np.any(wrapped.reshape(wrapped.shape[0], -1), axis=1)
        if blocks.any():
            observer.overflowed(op, frame, whole(blocks, frame.size))

    return run


def broken(name: str, promise: Overflow, kind: Scalar, result: Scalar, *tiles: Array) -> Array:
    """Which elements wrap in the sense that the operation promises does not happen."""
    shape = np.broadcast_shapes(*[held.shape for held in tiles])
    found = np.zeros(shape, np.bool_)
    for is_signed in (True, False):
        if promise in (_SIGNED if is_signed else _UNSIGNED):
            least, most = _limits(result, is_signed)
            # A shift counts from zero whatever the value is.
            read = [_read(held, kind, is_signed and not (name == "shli" and place)) for place, held in enumerate(tiles)]
            found |= _beyond(_WRAPPED[name], least, most, shape, read)
    return found


def _beyond(function: Callable[..., Array], least: int, most: int, shape: tuple[int, ...], read: list[Array]) -> Array:
    """Where a result lies outside limits: as float64 tells where that is exact, else as Python's integers tell."""
    estimate = np.broadcast_to(function(*[held.astype(np.float64) for held in read]), shape)
    result = (estimate < least) | (estimate > most)
    doubtful = np.abs(estimate) >= _EXACT
    for held in read:
        doubtful = doubtful | (held >= _EXACT) | (held <= -_EXACT)
    if doubtful.any():
        exact = function(*[np.broadcast_to(held, shape)[doubtful].astype(object) for held in read])
        result[doubtful] = [not least <= value <= most for value in exact]
    return result


def _read(held: Array, kind: Scalar, is_signed: bool) -> Array:
    """The numbers that the bits of integers stand for."""
    if kind in (Scalar.I1, Scalar.I4):
        bits = (held.view(np.int8) & ((1 << kind.bits) - 1)).astype(np.int64)
        return np.where(bits >> (kind.bits - 1), bits - (1 << kind.bits), bits) if is_signed else bits
    wide: Array = held.astype(np.int64) if is_signed else held.view(f"u{held.itemsize}").astype(np.uint64)
    return wide


def high_product(x: Array, y: Array, bits: int) -> Array:
    """The upper half of the product of unsigned numbers of this width."""
    if bits < 64:
        return (x.astype(np.uint64) * y.astype(np.uint64) >> np.uint64(bits)).astype(x.dtype)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    xh, xl, yh, yl = x >> half, x & low, y >> half, y & low
    middle = xh * yl + (xl * yl >> half)
    other = xl * yh + (middle & low)
    return xh * yh + (middle >> half) + (other >> half)


def _limits(kind: Scalar, is_signed: bool) -> tuple[int, int]:
    return (-(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1) - 1) if is_signed else (0, 2**kind.bits - 1)


_WRAPPED: dict[str, Callable[..., Array]] = {
    "addi": lambda x, y: x + y,
    "subi": lambda x, y: x - y,
    "muli": lambda x, y: x * y,
    "negi": lambda x: -x,
    "shli": lambda x, y: x * 2 ** np.minimum(y, 70),
    "trunci": lambda x: x,
}
