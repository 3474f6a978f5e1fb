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
from tilec_runtime.cpu.tileir.floats import flushed
from tilec_runtime.cpu.tileir.frame import AccessKind, Binder, Body, Frame, Step, whole
from tilec_runtime.cpu.tileir.ir import AtomicMode, Block, Op
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
# NumPy sorts two-byte integers many times faster than larger ones.
_SHORT = 1 << 16
_LEAST_NORMAL = np.finfo(np.float32).smallest_normal


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


def update(memory: Array, index: Rows, values: Array, mode: AtomicMode) -> Array:
    """Update elements of a flat array in order; return each element's old value."""
    if mode is AtomicMode.XCHG:
        return _exchange(memory, index, values)
    if mode in _UNSIGNED:
        unsigned = np.dtype(f"u{memory.itemsize}")
        return update(
            memory.view(unsigned),
            index,
            values.view(unsigned),
            AtomicMode.MAX if mode is AtomicMode.UMAX else AtomicMode.MIN,
        ).view(memory.dtype)
    if mode is AtomicMode.ADDF and memory.dtype == np.float32:
        return _add_flushed(memory, index, flushed(values))
    return _in_turn(memory, index, values, _UFUNCS[mode])


def _in_turn(memory: Array, index: Rows, values: Array, ufunc: Any) -> Array:
    if bool((index[1:] > index[:-1]).all()):
        before: Array = memory[index]
        memory[index] = ufunc(before, values)
        return before
    groups = Groups.of(index)
    before = np.empty_like(values)
    if len(groups.starts) <= int(groups.counts.max()):
        for start, count in zip(groups.starts.tolist(), groups.counts.tolist(), strict=True):
            these = groups.order[start : start + count]
            before[these] = _chain(memory, int(index[these[0]]), values[these], ufunc)
        return before
    for these in groups.rounds():
        addresses = index[these]
        current = memory[addresses]
        before[these] = current
        memory[addresses] = ufunc(current, values[these])
    return before


def _add_flushed(memory: Array, index: Rows, values: Array) -> Array:
    """Add float32 numbers like a GPU's atomic units.

    They flush subnormal numbers to zero.
    """
    original = memory[index]
    before = _in_turn(memory, index, values, np.add)
    if not (_subnormal(before) or _subnormal(memory[index])):
        return before
    memory[index] = original
    for these in Groups.of(index).rounds():
        current = memory[index[these]]
        before[these] = current
        memory[index[these]] = flushed(flushed(current) + values[these])
    return before


def _subnormal(held: Array) -> bool:
    return bool(((np.abs(held) < _LEAST_NORMAL) & (held != 0)).any())


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


def _chain(memory: Array, address: int, values: Array, ufunc: Any) -> Array:
    """Apply all updates of one element."""
    steps = np.empty(len(values) + 1, values.dtype)
    steps[0] = memory[address]
    steps[1:] = values
    ufunc.accumulate(steps, out=steps)
    memory[address] = steps[-1]
    return steps[:-1]


def _exchange(memory: Array, index: Rows, values: Array) -> Array:
    groups = Groups.of(index)
    before = np.empty_like(values)
    ordered = values[groups.order]
    shifted = np.empty_like(ordered)
    shifted[1:] = ordered[:-1]
    addresses = index[groups.order[groups.starts]]
    shifted[groups.starts] = memory[addresses]
    before[groups.order] = shifted
    memory[addresses] = ordered[groups.starts + groups.counts - 1]
    return before


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


def _by_pointers(op: Op, _bodies: Callable[[Block], Body]) -> Step:
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
        for part in resolve(wanted, values):
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


def _red(op: Op, _bodies: Callable[[Block], Body]) -> Step:
    access = ViewAccess.of(op, AccessKind.ATOMIC)
    kind, view, value, token = access.kind, op.operand("view"), op.operand("value"), op.results[0]
    mode = op.attributes["mode"]

    def step(frame: Frame) -> None:
        tensor, starts = frame.get(view), access.starts(frame)
        values = whole(kind.layout.encode(frame.get(value)), frame.size)
        wanted = _all_blocks(access.elements(frame, tensor, starts))
        for part in resolve(wanted, values):
            memory, index, (these,) = _flat(part, kind, (values,))
            update(memory, index, these, mode)
        frame.set(token, None)

    return step


BINDERS: dict[str, Binder] = {
    "atomic_rmw_tko": _by_pointers,
    "atomic_cas_tko": _by_pointers,
    "atomic_red_view_tko": _red,
}
