"""Steps of operations that compute one result from the operands' arrays."""

from __future__ import annotations

from collections.abc import Callable

from tilec_runtime.cpu.tileir.frame import Frame, Step
from tilec_runtime.cpu.tileir.ir import Op, Scalar, Tile, Value
from tilec_runtime.cpu.tileir.values import Array


def compute(op: Op, function: Callable[..., Array], *names: str) -> Step:
    """Return a step that sets the result to `function` of the named operands."""
    result = op.results[0]
    sources = [op.operand(name) for name in names]
    if len(sources) == 1:
        one = sources[0]
        return observed(op, lambda frame: frame.set(result, function(frame.get(one))))
    return observed(
        op, lambda frame: frame.set(result, function(*[frame.get(source) for source in sources]))
    )


def observed(op: Op, step: Step) -> Step:
    """Extend a step with floating point results by a call of the observer."""
    if not any(
        isinstance(kind := tile(result).element, Scalar) and kind.is_float for result in op.results
    ):
        return step

    def run(frame: Frame) -> None:
        step(frame)
        observer = frame.launch.options.observer
        if observer is not None:
            observer.computed(op, frame)

    return run


def tile(value: Value) -> Tile:
    """Return the type of a tile."""
    assert isinstance(value.type, Tile)
    return value.type


def element(value: Value) -> Scalar:
    """Return the element type of a tile of numbers."""
    kind = tile(value).element
    assert isinstance(kind, Scalar)
    return kind
