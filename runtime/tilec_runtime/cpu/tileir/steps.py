"""Steps of operations that compute each result from the operands' arrays alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilec_runtime.cpu.tileir.frame import Frame, Step
from tilec_runtime.cpu.tileir.ir import Op, Pointer, Scalar, Tile, Value
from tilec_runtime.cpu.tileir.values import Array


def compute(op: Op, function: Callable[..., Array], *names: str) -> Step:
    """Sets the one result to what `function` makes of the operands with these names."""
    result = op.results[0]
    sources = [op.operand(name) for name in names]
    if len(sources) == 1:
        one = sources[0]
        return told(op, lambda frame: frame.set(result, function(frame.get(one))))
    return told(
        op, lambda frame: frame.set(result, function(*[frame.get(source) for source in sources]))
    )


def told(op: Op, step: Step) -> Step:
    """A step of which an observer is told, where it gives floating point numbers."""
    if not any(
        isinstance(kind := tile(result).element, Scalar) and kind.is_float for result in op.results
    ):
        return step

    def run(frame: Frame) -> None:
        step(frame)
        observer = frame.launch.observer
        if observer is not None:
            observer.computed(op, frame)

    return run


def tile(value: Value) -> Tile:
    """The type of a value that is a tile."""
    assert isinstance(value.type, Tile)
    return value.type


def element(value: Value) -> Scalar:
    """The element type of a tile of numbers."""
    kind = tile(value).element
    assert isinstance(kind, Scalar)
    return kind


def element_or_pointer(value: Value) -> Scalar | Pointer:
    """The element type of any tile."""
    return tile(value).element


def attribute(op: Op, name: str, default: Any) -> Any:
    """An attribute, or what holds where the operation's version lacks it."""
    return op.attributes.get(name, default)
