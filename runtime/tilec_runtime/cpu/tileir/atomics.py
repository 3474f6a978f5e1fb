"""Atomic operations on a batch of blocks.

The result is that of updating one element after the other, in the order of the blocks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.access import ViewAccess
from tilec_runtime.cpu.tileir.elements import Elements, Kind, Part, places, resolve
from tilec_runtime.cpu.tileir.floats import LEAST_NORMAL, flushed
from tilec_runtime.cpu.tileir.frame import AccessKind, Binder, Bodies, Frame, Step, whole
from tilec_runtime.cpu.tileir.ir import AtomicMode, Op
from tilec_runtime.cpu.tileir.pointers import first_address, garbage_of, pointed, pointee
from tilec_runtime.cpu.tileir.values import Array, Rows, layout

_UFUNCS: dict[AtomicMode, Any] = {
    AtomicMode.AND: np.bitwise_and,
    AtomicMode.OR: np.bitwise_or,
    AtomicMode.XOR: np.bitwise_xor,
    AtomicMode.ADD: np.add,
    AtomicMode.ADDF: np.add,
    AtomicMode.MAX: np.maximum,
    AtomicMode.MIN: np.minimum,
    AtomicMode.UMAX: np.maximum,
    AtomicMode.UMIN: np.minimum,
}
_UNSIGNED = {AtomicMode.UMAX, AtomicMode.UMIN}
# Computes new values of elements from their old values and the updates.
Combine = Callable[[Array, Array], Array]
# NumPy sorts two-byte integers many times faster than larger ones.
_SHORT = 1 << 16


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Groups:
    """Updates grouped by element.

    Attributes:
        order: indices of the updates sorted by element; updates of one element keep their order.
        starts: start of each element's group in `order`.
        counts: size of each group.
    """

    order: Rows
    starts: Rows
    counts: Rows

    @classmethod
    def of(cls, index: Rows) -> Groups:
        """Group updates by the index of their element."""
        low, high = int(index.min()), int(index.max())
        short = (index - low).astype(np.uint16) if high - low < _SHORT else index
        order = np.argsort(short, kind="stable")
        ordered = short[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        return cls(order=order, starts=starts, counts=np.diff(starts, append=len(order)))

    def rounds(self) -> Iterator[Rows]:
        """Yield the first update of every element, then every second update, and so on."""
        number = np.arange(len(self.order)) - np.repeat(self.starts, self.counts)
        by_number = np.argsort(number, kind="stable")
        at = 0
        for count in np.bincount(number).tolist():
            yield self.order[by_number[at : at + count]]
            at += count


def combining(mode: AtomicMode, dtype: np.dtype[Any]) -> Combine:
    """Return the function that computes new values of elements of a dtype."""
    if mode is AtomicMode.XCHG:
        return lambda _old, new: new
    ufunc = _UFUNCS[mode]
    if mode is AtomicMode.ADDF and dtype == np.float32:
        # A GPU's atomic units flush subnormal numbers to zero.
        return lambda old, new: flushed(flushed(old) + flushed(new))
    if mode in _UNSIGNED:
        unsigned = np.dtype(f"u{dtype.itemsize}")
        return lambda old, new: ufunc(old.view(unsigned), new.view(unsigned)).view(dtype)
    return lambda old, new: ufunc(old, new)


def update(memory: Array, index: Rows, values: Array, mode: AtomicMode) -> Array:
    """Update elements of a flat array in order; return each element's old value."""
    combine = combining(mode, memory.dtype)
    if bool((index[1:] > index[:-1]).all()):
        return _update_distinct(memory, index, values, combine)
    groups = Groups.of(index)
    before = np.empty_like(values)
    if len(groups.starts) <= int(groups.counts.max()):
        for start, count in zip(groups.starts.tolist(), groups.counts.tolist(), strict=True):
            these = groups.order[start : start + count]
            before[these] = _chain(memory, int(index[these[0]]), values[these], mode, combine)
        return before
    for these in groups.rounds():
        before[these] = _update_distinct(memory, index[these], values[these], combine)
    return before


def _update_distinct(memory: Array, index: Rows, values: Array, combine: Combine) -> Array:
    """Update elements, none of them twice; return their old values."""
    before: Array = memory[index]
    memory[index] = combine(before, values)
    return before


def _chain(memory: Array, address: int, values: Array, mode: AtomicMode, combine: Combine) -> Array:
    """Apply all updates of one element; return its value before each."""
    steps = np.concatenate((memory[address : address + 1], values))
    if mode is not AtomicMode.XCHG:
        numbers = steps.view(f"u{steps.itemsize}") if mode in _UNSIGNED else steps
        _UFUNCS[mode].accumulate(numbers, out=numbers)
    if mode is AtomicMode.ADDF and (_subnormal(steps) or _subnormal(values)):
        for place in range(len(values)):
            old, new = steps[place : place + 1], values[place : place + 1]
            steps[place + 1 : place + 2] = combine(old, new)
    memory[address] = steps[-1]
    return steps[:-1]


def _subnormal(held: Array) -> bool:
    """Whether there are subnormal float32 numbers, which atomic sums flush."""
    return held.dtype == np.float32 and bool(((np.abs(held) < LEAST_NORMAL) & (held != 0)).any())


def compare_and_swap(memory: Array, index: Rows, compare: Array, values: Array) -> Array:
    """Store each value if its element has the bits of `compare`; return old values."""
    bits = np.dtype(f"u{memory.itemsize}")
    memory, compare = memory.view(bits), compare.view(bits)
    before = np.empty(values.shape, bits)
    if bool((index[1:] > index[:-1]).all()):
        rounds: Iterator[Rows] = iter((np.arange(len(index)),))
    else:
        rounds = Groups.of(index).rounds()
    for these in rounds:
        addresses = index[these]
        current = memory[addresses]
        before[these] = current
        memory[addresses] = np.where(current == compare[these], values.view(bits)[these], current)
    return before.view(values.dtype)


def _flat(part: Part, kind: Kind, arrays: tuple[Array, ...]) -> tuple[Array, Rows, list[Array]]:
    """Return the memory and indices of a part of the elements, and its part of arrays.

    Elements are in the order of the blocks.
    """
    memory, lead = part.region.typed(kind.layout.raw)
    offsets = part.offsets.reshape(-1) if part.mask is None else part.offsets[part.mask]
    chosen = [array.reshape(-1) if part.mask is None else array[part.mask] for array in arrays]
    return memory, places(offsets, lead, kind.layout.size), chosen


def _all_blocks(wanted: Elements) -> Elements:
    """Expand elements to one row per block.

    Blocks that update the same element then each do so.
    """
    size = wanted.frame.size
    return dataclasses.replace(
        wanted,
        addresses=whole(wanted.addresses, size),
        mask=None if wanted.mask is None else whole(wanted.mask, size),
        promised=None if wanted.promised is None else whole(wanted.promised, size),
    )


def _by_pointers(op: Op, _bodies: Bodies) -> Step:
    """`atomic_rmw_tko` and `atomic_cas_tko`."""
    pointers, mask, (result, token) = op.operand("pointers"), op.optional("mask"), op.results
    kind, mode = (
        Kind.of(op, layout(pointee(pointers)), AccessKind.ATOMIC),
        op.attributes.get("mode"),
    )
    sources = [
        op.operand(name) for name in (("value",) if mode is not None else ("value", "compare"))
    ]
    garbage = garbage_of(op, kind.layout)

    def step(frame: Frame) -> None:
        wanted = _all_blocks(
            pointed(kind, frame, frame.get(pointers), frame.get(mask) if mask is not None else None)
        )
        arrays = tuple(
            whole(kind.layout.encode(frame.get(source)), frame.size) for source in sources
        )
        values = arrays[0]
        if mode is None:
            before = arrays[1].copy()  # the result of a masked element is its compared value
        elif wanted.mask is None or wanted.mask.all():
            before = np.zeros(values.shape, values.dtype)
        else:
            before = np.broadcast_to(
                garbage.fill(frame, first_address(wanted)), values.shape
            ).astype(values.dtype)
        for part in resolve(wanted):
            memory, index, these = _flat(part, kind, arrays)
            current = (
                compare_and_swap(memory, index, these[1], these[0])
                if mode is None
                else update(memory, index, these[0], mode)
            )
            if part.mask is None:
                before[...] = current.reshape(before.shape)
            else:
                before[part.mask] = current
        frame.set(result, kind.layout.decode(before))
        frame.set(token, None)

    return step


def _red(op: Op, _bodies: Bodies) -> Step:
    access = ViewAccess.of(op, AccessKind.ATOMIC)
    kind, view, value, token = access.kind, op.operand("view"), op.operand("value"), op.results[0]
    mode = op.attributes["mode"]
    combine = combining(mode, kind.layout.raw)

    def step(frame: Frame) -> None:
        tensor, starts = frame.get(view), access.starts(frame)
        values = whole(kind.layout.encode(frame.get(value)), frame.size)
        tiles = access.plan(frame, tensor, starts)
        if tiles is not None and access.disjoint(frame, tensor, starts):
            tiles.store(combine(tiles.load(kind.layout.raw), values))
        else:
            wanted = _all_blocks(access.elements(frame, tensor, starts))
            for part in resolve(wanted):
                memory, index, (these,) = _flat(part, kind, (values,))
                update(memory, index, these, mode)
        frame.set(token, None)

    return step


BINDERS: dict[str, Binder] = {
    "atomic_rmw_tko": _by_pointers,
    "atomic_cas_tko": _by_pointers,
    "atomic_red_view_tko": _red,
}
