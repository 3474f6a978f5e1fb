"""Accesses to single elements: find memory, inform the observer, check addresses."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.faults import forbidden, misaligned, outside
from tilec_runtime.cpu.tileir.frame import ROTATIONS, Access, AccessKind, Frame, Outside
from tilec_runtime.cpu.tileir.ir import MemoryOrder, MemoryScope, Op
from tilec_runtime.cpu.tileir.memory import MemoryRegion
from tilec_runtime.cpu.tileir.values import Array, Layout

# From positions in the array of addresses (an index per axis) to indices in the tensor, and the
# tensor's extents.
Places = Callable[[tuple[Array, ...]], tuple[Array, Array]]
# This bit of a pointer to a four-bit type selects the upper half of the byte.
UPPER = 1 << 62


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Kind:
    """The constant properties of an operation that accesses memory."""

    op: Op
    layout: Layout
    kind: AccessKind
    order: MemoryOrder
    scope: MemoryScope | None

    @classmethod
    def of(cls, op: Op, layout: Layout, kind: AccessKind) -> Kind:
        """Read the properties from an operation's attributes."""
        order, scope = op.attributes.get("order", MemoryOrder.WEAK), op.attributes.get("scope")
        return cls(op=op, layout=layout, kind=kind, order=order, scope=scope)

    @property
    def writes(self) -> bool:
        """Whether the operation changes memory."""
        return self.kind is not AccessKind.READ


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Elements:
    """Single elements to access, of a batch.

    Attributes:
        kind: properties of the operation.
        frame: frame of the batch.
        addresses: int64, shape (blocks or 1, *tile). For four-bit types, `UPPER` selects the half
            of the byte.
        mask: elements to access, of the same shape; None for all.
        index: computes indices in a view's tensor; None for pointers.
        promised: elements that are out of bounds although the operation declares them in bounds;
            None for none. Without an observer they are accessed if memory exists at their address.
    """

    kind: Kind
    frame: Frame
    addresses: Array
    mask: Array | None
    index: Places | None = None
    promised: Array | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Part:
    """The elements in one region, selected by `mask` (None: all).

    Offsets of other elements are inside the region too, but have no meaning.
    """

    region: MemoryRegion
    offsets: Array
    mask: Array | None


def resolve(elements: Elements) -> list[Part]:
    """Find the regions of elements, and inform the observer.

    Elements outside of all memory end the launch, unless an observer skips them.
    """
    kind, frame = elements.kind, elements.frame
    addresses = elements.addresses & ~UPPER if kind.layout.packed else elements.addresses
    mask = elements.mask
    promised = elements.promised
    if promised is not None and frame.launch.options.observer is not None:
        mask, promised = _report(elements, addresses, promised, promised=True), None
    if mask is not None:
        if not mask.any():
            return []
        # Replace masked addresses by a valid one, so that later code needs no special case.
        addresses = np.where(
            mask, addresses, addresses[np.unravel_index(int(mask.argmax()), mask.shape)]
        )
    _check_alignment(elements, addresses, mask)
    parts, left = _split(elements, addresses, mask)
    if left is not None:
        _report(
            elements,
            addresses,
            left,
            promised=promised is not None and bool((promised & left).any()),
        )
    for part in parts:
        if kind.writes and not part.region.writable:
            forbidden(frame, kind.op, part.region, part.offsets, part.mask)
    if frame.launch.options.observer is not None:
        for part in parts:
            _tell(elements, part)
    return parts


def gather(elements: Elements) -> Array:
    """Load the raw elements; zero for masked or missing ones.

    Each four-bit element takes one byte.
    """
    layout = elements.kind.layout
    parts = resolve(elements)
    if not parts:
        return np.zeros(elements.addresses.shape, layout.raw)
    gathered = _read(parts[0], layout, elements.addresses)
    if parts[0].mask is not None:
        np.copyto(gathered, np.zeros((), layout.raw), where=~parts[0].mask)
    for part in parts[1:]:
        assert part.mask is not None
        np.copyto(gathered, _read(part, layout, elements.addresses), where=part.mask)
    return gathered


def scatter(elements: Elements, raw: Array) -> None:
    """Store elements; at one address, the last element of the last block stays."""
    layout = elements.kind.layout
    shape = elements.addresses.shape
    # If all blocks store to the same address, the value of the last block stays.
    whole = np.broadcast_to(raw[-1:] if shape[0] == 1 else raw, shape)
    for part in resolve(elements):
        if part.mask is None:
            _write(part, layout, elements.addresses, part.offsets, whole)
        else:
            _write(
                part,
                layout,
                elements.addresses[part.mask],
                part.offsets[part.mask],
                whole[part.mask],
            )


def advanced(base: Array, number: Array) -> Array:
    """Advance addresses of four-bit elements by `number` elements."""
    halves = number + (base & UPPER != 0)
    addresses: Array = (base & ~UPPER) + (halves >> 1) | np.where(halves & 1, UPPER, 0)
    return addresses


def _read(part: Part, layout: Layout, addresses: Array) -> Array:
    if layout.packed:
        pairs = part.region.data[part.offsets]
        return np.where(addresses & UPPER, pairs >> 4, pairs & 15).astype(np.uint8)
    typed, lead = part.region.typed(layout.raw)
    return typed.take(places(part.offsets, lead, layout.size))


def places(offsets: Array, lead: int, size: int) -> Array:
    """Convert byte offsets to indices of elements; element 0 is at the offset `lead`."""
    if size == 1:
        return offsets
    distances = offsets - lead if lead else offsets
    return distances >> (size.bit_length() - 1)


def _write(part: Part, layout: Layout, addresses: Array, offsets: Array, raw: Array) -> None:
    if layout.packed:
        data, upper = part.region.data, (addresses & UPPER) != 0
        low, high = offsets[~upper], offsets[upper]
        data[low] = data[low] & 0xF0 | raw[~upper]
        data[high] = data[high] & 0x0F | raw[upper] << 4
        return
    typed, lead = part.region.typed(layout.raw)
    typed[places(offsets, lead, layout.size)] = raw


def _check_alignment(elements: Elements, addresses: Array, mask: Array | None) -> None:
    size = elements.kind.layout.size
    if size > 1 and int(np.bitwise_or.reduce(addresses, axis=None)) & (size - 1):
        odd = (addresses & (size - 1)) != 0
        misaligned(
            elements.frame, elements.kind.op, addresses, odd if mask is None else odd & mask, size
        )


def _split(
    elements: Elements, addresses: Array, mask: Array | None
) -> tuple[list[Part], Array | None]:
    """Split elements by region; return the parts, and a mask of the rest (or None)."""
    memory, size = elements.frame.launch.memory, elements.kind.layout.size
    low, high = int(addresses.min()), int(addresses.max()) + size
    region = memory.find(low, elements.kind.writes)
    if region is not None and high <= region.end:
        return [Part(region=region, offsets=addresses - region.address, mask=mask)], None
    parts, left = [], np.ones(addresses.shape, np.bool_) if mask is None else mask.copy()
    for region in _candidates(memory.regions, elements.kind.writes, low, high):
        inside = left & (addresses >= region.address) & (addresses <= region.end - size)
        if inside.any():
            parts.append(
                Part(
                    region=region,
                    offsets=np.where(inside, addresses - region.address, 0),
                    mask=inside,
                )
            )
            left &= ~inside
    return parts, left if left.any() else None


def _candidates(
    regions: tuple[MemoryRegion, ...], writing: bool, low: int, high: int
) -> Iterator[MemoryRegion]:
    near = [region for region in regions if region.address < high and region.end > low]
    yield from sorted(near, key=lambda region: not region.writable) if writing else near


def _report(elements: Elements, addresses: Array, which: Array, *, promised: bool) -> Any:
    """Report elements out of bounds, or raise; return the remaining mask."""
    where = np.nonzero(which)
    index, shape = elements.index(where) if elements.index is not None else (None, None)
    access = Outside(
        op=elements.kind.op,
        frame=elements.frame,
        kind=elements.kind.kind,
        rows=where[0],
        addresses=addresses[where],
        index=index,
        shape=shape,
        promised=promised,
    )
    observer = elements.frame.launch.options.observer
    if observer is None or not observer.outside(access):
        outside(access, elements.kind.layout.size)
    return ~which if elements.mask is None else elements.mask & ~which


def _tell(elements: Elements, part: Part) -> None:
    kind, frame = elements.kind, elements.frame
    shape = (frame.size, *part.offsets.shape[1:])
    assert frame.launch.options.observer is not None
    frame.launch.options.observer.access(
        Access(
            op=kind.op,
            frame=frame,
            region=part.region,
            offsets=np.broadcast_to(part.offsets, shape),
            mask=None if part.mask is None else np.broadcast_to(part.mask, shape),
            size=kind.layout.size,
            kind=kind.kind,
            order=kind.order,
            scope=kind.scope,
        )
    )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Garbage:
    """Fills undetermined elements of one operation.

    Attributes:
        op: operation that reads them.
        layout: layout of its elements.
        shape: shape of its tile.
    """

    op: Op
    layout: Layout
    shape: tuple[int, ...]

    def fill(self, frame: Frame, address: int) -> Array:
        """Return raw elements of shape (blocks or 1, *tile).

        `address` is any address of the array.
        """
        wish = frame.launch.options.undetermined
        if wish.reached is not None:
            wish.reached(self.op, frame, address)
        zeros = np.zeros((1, *self.shape), self.layout.raw)
        if wish.turn is None or (
            wish.site is not None and wish.site != (frame.launch.options.kernel, self.op.number)
        ):
            return zeros
        pattern = _pattern(self.layout, self.shape, wish.turn)
        if wish.blocks is None:
            return pattern
        rows = (frame.blocks < wish.blocks).reshape(-1, *(1,) * len(self.shape))
        return np.where(rows, pattern, zeros)


@functools.lru_cache(maxsize=64)
def _pattern(layout: Layout, shape: tuple[int, ...], rotation: int) -> Array:
    """Fill a tile with the hostile values of a type in turn, or with one value.

    Rows of a pattern are shifted copies, since extents are powers of 2 and there are three values.
    """
    hostile = layout.hostile()
    values = (
        np.roll(hostile, -rotation)
        if rotation < ROTATIONS
        else (hostile[1:2], layout.one())[rotation - ROTATIONS]
    )
    pattern = np.resize(values, (1, *shape))
    pattern.flags.writeable = False
    return pattern
