"""The operations `assert`, `assume` (checked for an observer) and `print_tko`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.faults import fault
from tilec_runtime.cpu.tileir.frame import Binder, Bodies, Frame, Step, whole
from tilec_runtime.cpu.tileir.ir import (
    Bounded,
    DivBy,
    Op,
    Pointer,
    SameElements,
    Scalar,
    Tile,
    Type,
    Value,
)
from tilec_runtime.cpu.tileir.values import Array, storage
from tilec_runtime.errors import TileIRError

# Returns whether an assumption is violated, per row or for all rows at once.
_Check = Callable[[Any], Array]
_Show = Callable[[Any], str]


def _assert(op: Op, _bodies: Bodies) -> Step:
    condition, message = op.operand("condition"), str(op.attributes["message"])

    def step(frame: Frame) -> None:
        held = frame.get(condition)
        if held.all():
            return
        failed = ~whole(_rows(held, np.all), frame.size)
        observer = frame.launch.options.observer
        if observer is not None and observer.asserted(op, frame, failed):
            return
        row = int(np.flatnonzero(failed)[0])
        failures = np.argwhere(~held[row if held.shape[0] > 1 else 0])
        where = (
            f", first for element {tuple(int(index) for index in failures[0])} of its tile"
            if held.ndim > 1
            else ""
        )
        raise fault(op, frame, row, f"the assertion failed{where}: {message}")

    return step


def _assume(op: Op, _bodies: Bodies) -> Step:
    source, result = op.operand("value"), op.results[0]
    check = _check(op.attributes["predicate"], source.type)

    def step(frame: Frame) -> None:
        held = frame.get(source)
        frame.set(result, held)
        observer = frame.launch.options.observer
        if observer is not None:
            broken = check(held)
            if broken.any():
                observer.assumed(op, frame, whole(broken, frame.size))

    return step


def _check(predicate: Any, kind: Type) -> _Check:
    """Return the function that finds the rows which violate an assumption."""
    if not isinstance(kind, Tile):
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
    """Return the step between elements of a run: 1, or the pointee's size in bytes."""
    return storage(kind.element.pointee).itemsize if isinstance(kind.element, Pointer) else 1


def _beyond(held: Array, lower: int | None, upper: int | None) -> Array:
    bad = np.zeros(held.shape, np.bool_)
    if lower is not None:
        bad |= held < lower
    if upper is not None:
        bad |= held > upper
    return bad


def _remainder(held: Array, divisor: int) -> Array:
    # Divisors are powers of two, so the sign does not matter.
    remainder: Array = held.astype(np.int64) & (divisor - 1)
    return remainder


def _off_run(held: Array, divisor: int, every: int, axis: int, step: int) -> Array:
    """Return the elements that violate runs of `every` along an axis.

    The first element of a run is divisible, and each other one follows its predecessor.
    """
    values = np.moveaxis(held.astype(np.int64), axis, -1)
    offset = np.arange(values.shape[-1]) % every
    first = values - offset * step
    leader = np.take(values, np.arange(values.shape[-1]) // every * every, axis=-1)
    bad: Array = (first != leader) | (_remainder(leader, divisor) != 0)
    return bad


def _leaders(held: Array, groups: tuple[int, ...]) -> Array:
    """Return the first element of each element's group."""
    for axis, size in enumerate(groups, start=1):
        held = np.take(held, np.arange(held.shape[axis]) // size * size, axis=axis)
    return held


def _rows(held: Array, combine: Callable[..., Any]) -> Array:
    """Combine the elements of each row."""
    combined: Array = combine(held.reshape(held.shape[0], -1), axis=1)
    return combined


_SPECIFIER = re.compile(r"%(?:%|([0 #+-]*)([0-9]+)?(?:\.([0-9]+))?(?:hh|h|ll|l)?([A-Za-z]))")
_INTEGERS, _UNSIGNED, _FLOATS = "diuoxX", "uoxX", "eEfFgG"


def _print(op: Op, _bodies: Bodies) -> Step:
    literals, formats = _parse(op)
    args, results = op.operands.get("args", ()), op.results

    def step(frame: Frame) -> None:
        held = [frame.get(arg) for arg in args]
        for row, number in enumerate(frame.blocks.tolist()):
            text = literals[0]
            for item, show, literal in zip(held, formats, literals[1:], strict=True):
                text += _tile(item[row if item.shape[0] > 1 else 0], show) + literal
            frame.batch.printed.append((number, text))
        for result in results:
            frame.set(result, None)

    return step


def _parse(op: Op) -> tuple[list[str], list[_Show]]:
    """Return the literal texts around the values, and a format function per value."""
    text, args = str(op.attributes["text"]), op.operands.get("args", ())
    literals, end = [""], 0
    formats: list[_Show] = []
    for match in _SPECIFIER.finditer(text):
        literals[-1] += text[end : match.start()]
        end = match.end()
        if match.group() == "%%":
            literals[-1] += "%"
            continue
        if len(formats) == len(args):
            raise _wrong(op, f"has more places for values than its {len(args)} values")
        formats.append(_format(op, match, args[len(formats)]))
        literals.append("")
    if len(formats) != len(args):
        raise _wrong(op, f"has {len(formats)} places for its {len(args)} values")
    literals[-1] += text[end:]
    return literals, formats


def _format(op: Op, match: re.Match[str], arg: Value) -> _Show:
    flags, width, precision, kind = (part or "" for part in match.groups())
    if not isinstance(arg.type, Tile):
        raise _wrong(op, "is given something that is no tile")
    element = arg.type.element
    precise = f".{precision}" if match.group(3) is not None else ""
    if kind in _INTEGERS:
        spec = f"%{flags}{width}{precise}{'d' if kind in 'iu' else kind}"
        return _integer_format(spec, element, unsigned=kind in _UNSIGNED)
    if kind in _FLOATS:
        spec = f"%{flags}{width}{precise}{kind}"
        return lambda item: spec % float(item)
    if kind in "aA":  # all digits, whatever the width and precision
        return lambda item: float(item).hex().upper() if kind == "A" else float(item).hex()
    raise _wrong(
        op,
        f"has the format {match.group()}, which is for neither integers nor floating point numbers",
    )


def _integer_format(spec: str, element: Scalar | Pointer, *, unsigned: bool) -> _Show:
    if not unsigned and element is not Scalar.I1:
        return lambda item: spec % int(item)
    mask = (1 << (64 if isinstance(element, Pointer) else element.bits)) - 1
    return lambda item: spec % (int(item) & mask)


def _tile(held: Array, show: _Show) -> str:
    if held.ndim == 0:
        return show(held.item() if held.dtype.kind in "biuf" else np.float64(held))
    return f"[{', '.join(_tile(part, show) for part in held)}]"


def _wrong(op: Op, fault: str) -> TileIRError:
    return TileIRError(f"print_tko {fault}: {op.attributes['text']!r}", location=op.location)


BINDERS: dict[str, Binder] = {"assert": _assert, "assume": _assume, "print_tko": _print}
