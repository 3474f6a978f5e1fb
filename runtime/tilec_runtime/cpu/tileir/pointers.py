"""Operations on pointers: arithmetic, conversions, allocation, loads and stores."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.elements import (
    UPPER,
    Elements,
    Garbage,
    Kind,
    advanced,
    gather,
    scatter,
)
from tilec_runtime.cpu.tileir.frame import AccessKind, Binder, Bodies, Frame, Step
from tilec_runtime.cpu.tileir.ir import Op, Pointer, Scalar, Tile, Value
from tilec_runtime.cpu.tileir.steps import tile
from tilec_runtime.cpu.tileir.values import Array, Layout, layout


def pointee(value: Value) -> Scalar:
    """Return the element type that a tile of pointers points to."""
    pointer = tile(value).element
    assert isinstance(pointer, Pointer)
    return pointer.pointee


def pointed(kind: Kind, frame: Frame, addresses: Array, mask: Array | None) -> Elements:
    """Return the elements at addresses; the mask is broadcast to their rows."""
    if mask is not None:
        addresses, mask = np.broadcast_arrays(addresses, mask)
    return Elements(kind=kind, frame=frame, addresses=addresses, mask=mask)


def garbage_of(op: Op, form: Layout) -> Garbage:
    """Return the source of values for masked elements of an operation."""
    return Garbage(op=op, layout=form, shape=tile(op.results[0]).shape)


def first_address(elements: Elements) -> int:
    """Return the address of the first unmasked element.

    If all elements are masked, return that of the first.
    """
    first = 0 if elements.mask is None else int(elements.mask.argmax())
    return int(elements.addresses.reshape(-1)[first]) & ~UPPER


def _offset(op: Op, _bodies: Bodies) -> Step:
    pointer, offset, result = op.operand("pointer"), op.operand("offset"), op.results[0]
    element = layout(pointee(pointer))

    def step(frame: Frame) -> None:
        base, number = frame.get(pointer), frame.get(offset).astype(np.int64)
        if element.packed:
            frame.set(result, advanced(base, number))
            return
        if element.size > 1:
            number *= element.size
        if base.shape == number.shape:
            number += base
            frame.set(result, number)
        else:
            frame.set(result, number + base)

    return step


def _pass(op: Op, _bodies: Bodies) -> Step:
    source, result = op.operand("source"), op.results[0]

    def step(frame: Frame) -> None:
        # Clear `UPPER`, the mark of pointers to the upper half of a byte: an integer or a pointer
        # to another type must not have it.
        frame.set(result, frame.get(source) & ~UPPER)

    kind = source.type
    if (
        isinstance(kind, Tile)
        and isinstance(kind.element, Pointer)
        and kind.element.pointee.bits == 4
    ):
        return step
    return lambda frame: frame.set(result, frame.get(source))


def _get_global(op: Op, _bodies: Bodies) -> Step:
    result, name = op.results[0], op.attributes["name"]
    return lambda frame: frame.set(result, np.array([frame.launch.globals[name]], np.int64))


def _alloca(op: Op, _bodies: Bodies) -> Step:
    result, count, alignment = op.results[0], op.attributes["count"], op.attributes["alignment"]
    element = layout(pointee(result))
    size = -(-count // 2) if element.packed else count * element.size
    aligned = max(alignment, 16)
    apart = -(-size // aligned) * aligned + aligned

    def step(frame: Frame) -> None:
        """Allocate memory per block.

        In a loop, a block gets the same memory again, since its lifetime is one iteration.
        """
        known = frame.batch.addresses.setdefault(op.number, {})
        blocks = frame.blocks.tolist()
        fresh = [block for block in blocks if block not in known]
        if fresh:
            region = frame.launch.memory.new("alloca", apart * len(fresh), aligned)
            region.itemsize = element.size
            frame.batch.regions.append(region)
            known.update(
                (block, region.address + index * apart) for index, block in enumerate(fresh)
            )
        frame.set(result, np.array([known[block] for block in blocks], np.int64))

    return step


def _load(op: Op, _bodies: Bodies) -> Step:
    source, mask, padding = op.operand("source"), op.optional("mask"), op.optional("padding")
    kind = Kind.of(op, layout(pointee(source)), AccessKind.READ)
    result, token = op.results
    garbage = garbage_of(op, kind.layout)

    def step(frame: Frame) -> None:
        held: Any = frame.get(mask) if mask is not None else None
        wanted = pointed(kind, frame, frame.get(source), held)
        loaded = kind.layout.decode(gather(wanted))
        if wanted.mask is not None and not wanted.mask.all():
            other = (
                frame.get(padding)
                if padding is not None
                else kind.layout.decode(garbage.fill(frame, first_address(wanted)))
            )
            loaded = np.where(wanted.mask, loaded, other)
        frame.set(result, loaded)
        frame.set(token, None)

    return step


def _store(op: Op, _bodies: Bodies) -> Step:
    destination, value, mask, token = (
        op.operand("destination"),
        op.operand("value"),
        op.optional("mask"),
        op.results[0],
    )
    kind = Kind.of(op, layout(pointee(destination)), AccessKind.WRITE)

    def step(frame: Frame) -> None:
        held: Any = frame.get(mask) if mask is not None else None
        addresses, raw = frame.get(destination), kind.layout.encode(frame.get(value))
        scatter(pointed(kind, frame, addresses, held), raw)
        frame.set(token, None)

    return step


BINDERS: dict[str, Binder] = {
    "offset": _offset,
    "ptr_to_int": _pass,
    "int_to_ptr": _pass,
    "ptr_to_ptr": _pass,
    "get_global": _get_global,
    "alloca": _alloca,
    "load_ptr_tko": _load,
    "store_ptr_tko": _store,
}
