"""The checker: an observer of a launch that reports defects as findings."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.check.findings import (
    BlockIndex,
    Finding,
    FindingKind,
    Promises,
    Side,
    index_text,
)
from tilec_runtime.cpu.tileir.check.provenance import Extents, Provenance
from tilec_runtime.cpu.tileir.check.shadow import Shadow, SyncLog, Touch, is_strong, spans
from tilec_runtime.cpu.tileir.frame import Access, AccessKind, Frame, Outside, coordinates
from tilec_runtime.cpu.tileir.ir import AtomicMode, Function, Op
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.values import Array

_MOST_FINDINGS = 200  # at different locations; further ones are dropped


@dataclasses.dataclass(frozen=True, slots=True)
class _Record:
    """A recorded access: operation, kind, whether it synchronizes (strong), and time."""

    op: Op
    kind: AccessKind
    strong: bool
    time: int


class Checker:
    """An observer of one launch (`frame.Observer`).

    Args:
        function: the kernel.
        memory: memory of the launch.
        uninitialized: names of regions that are undefined until the kernel writes them.
        blank: for some of these, the bytes that earlier launches have not written.
        slots: the launcher's expression for each parameter of the entry point, such as
            `x.shape[1]`, for messages.
        not_finite: report the first NaN or infinity that results from finite numbers.
    """

    def __init__(
        self,
        function: Function,
        memory: Memory,
        *,
        uninitialized: Collection[str] = (),
        blank: Mapping[str, Array] | None = None,
        slots: Sequence[str] = (),
        not_finite: bool = False,
    ) -> None:
        self._memory = memory
        self._uninitialized = uninitialized
        self._shadows = spans(memory.regions, uninitialized, blank or {})
        self._records: list[_Record] = []
        self._numbers: dict[_Record, int] = {}
        self._log = SyncLog()
        self._findings: dict[tuple[Any, ...], Finding] = {}
        self._promises = Promises(function, slots)
        names = [slot.partition(".")[0] for slot in slots]
        self._parameters = frozenset(names)
        self._provenance = Provenance(function, names)
        self._extents = Extents(function, names)
        self._not_finite = not_finite

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings in the order of their detection."""
        return tuple(self._findings.values())

    def blank(self, name: str) -> Array | None:
        """Return which bytes of a region are unwritten.

        The result is None if the region is initialized or does not exist.
        """
        region = next((item for item in self._memory.regions if item.name == name), None)
        return None if region is None else self._shadow(region).unwritten(region)

    @property
    def unsure(self) -> bool:
        """Whether there was too much synchronization to analyze.

        Accesses then count as ordered.
        """
        return self._log.exhausted

    def access(self, access: Access) -> None:
        """Check an access for conflicts with earlier accesses, and record it."""
        shadow = self._shadow(access.region)
        self._stray(access, shadow)
        if shadow.blank is None and self._never_written(shadow):
            return
        strong = is_strong(access)
        touch = shadow.touch(access, in_order=strong)
        if not touch.count:
            return
        number = self._number(_Record(access.op, access.kind, strong, self._log.time))
        if strong:
            self._log.record(access, touch, shadow.address, shadow.unit)
        self._uninitialized_read(access, shadow, touch)
        if shadow.was_written:
            self._against_writers(access, shadow, touch, number)
        if access.kind is AccessKind.READ:
            shadow.note_read(touch, number, strong=strong)
            return
        if shadow.was_read:
            self._against_readers(access, shadow, touch, number)
        shadow.note_write(touch, number)
        if not strong and not isinstance(touch.cells, slice):
            self._against_writers(
                access, shadow, touch, number
            )  # conflicts within this batch, whose last writer is now in the shadow

    def outside(self, outside: Outside) -> bool:
        """Report elements out of bounds and continue."""
        rows = outside.rows
        address = int(outside.addresses[0])
        region = self._home(outside.op) or outside.frame.launch.memory.nearest(address)
        name = region.name if region else ""
        if outside.index is not None and outside.shape is not None:
            index = tuple(int(n) for n in outside.index[0])
            extents = ", ".join(str(int(n)) for n in outside.shape[0])
            where = f"element [{index_text(index)}] of {name or 'a tensor'}, whose extents are [{extents}]"
            if outside.tile is not None:
                of = f"lies entirely outside of {name or 'its tensor'}, whose extents are [{extents}]"
                where = f"a tile of [{index_text(outside.tile)}] elements from [{index_text(index)}] on, which {of}"
        elif region is not None:
            index = region.element(address - region.address)
            where = f"element [{index_text(index)}] of {name}, which has {region.data.size // region.itemsize}"
        else:
            index, where = (), f"address {address:#x}, where there is no memory"
        verb = "reads" if outside.kind is AccessKind.READ else "writes"
        promised = ", although the access is declared in bounds" if outside.promised else ""
        hint = (
            _PROMISED_HINT
            if outside.promised
            else _MASK_HINT
            if outside.tile is None
            else _TILE_HINT
        )
        self._add(
            (FindingKind.OUT_OF_BOUNDS, outside.op.number, name, outside.tile is not None),
            Finding(
                kind=FindingKind.OUT_OF_BOUNDS,
                what=f"{verb} {where}{promised}",
                location=outside.op.loc,
                block=outside.frame.place(int(rows[0])),
                parameter=name,
                index=index,
                count=len(rows),
                hint=hint,
            ),
        )
        return True

    def assumed(self, op: Op, frame: Frame, broken: Array) -> None:
        """Report an assumption that the actual values violate."""
        row = int(np.flatnonzero(broken)[0])
        parameter, reason = self._promises.broken(op, frame, row)
        self._add(
            (FindingKind.BROKEN_PROMISE, op.number),
            Finding(
                kind=FindingKind.BROKEN_PROMISE,
                what=reason,
                location=op.loc,
                block=frame.place(row),
                parameter=parameter,
                count=int(broken.sum()),
                hint="the compiler relies on it: launch a variant that does not assume it, or give arguments for which it holds",
            ),
        )

    def asserted(self, op: Op, frame: Frame, failed: Array) -> bool:
        """Report a failed assertion and continue."""
        self._in_blocks(
            FindingKind.FAILED_ASSERT,
            op,
            frame,
            failed,
            f"the assertion {str(op.attributes['message'])!r} does not hold",
        )
        return True

    def overflowed(self, op: Op, frame: Frame, wrapped: Array) -> None:
        """Report an integer overflow in an operation that promises none."""
        values = self._promises.operands(op, frame, int(np.flatnonzero(wrapped)[0]))
        message = f"{op.name} overflows where the kernel promises that it does not{values}"
        self._in_blocks(
            FindingKind.OVERFLOW,
            op,
            frame,
            wrapped,
            message,
            hint="compute in i64, or keep the values in range",
        )

    def computed(self, op: Op, frame: Frame) -> None:
        """Report the first NaN or infinity that results from finite operands."""
        if not self._not_finite or any(
            kind is FindingKind.NOT_FINITE for kind, *_ in self._findings
        ):
            return
        bad = self._promises.not_finite(op, frame)
        if bad is not None and bad.any():
            message = f"{op.name} gives a NaN or an infinity from finite numbers"
            self._in_blocks(FindingKind.NOT_FINITE, op, frame, bad, message)

    def _shadow(self, region: MemoryRegion) -> Shadow:
        shadow = self._shadows.get(region)
        if shadow is None:  # memory that the kernel allocated during the launch
            shadow = self._shadows[region] = Shadow([region], self._uninitialized, {})
        return shadow

    def _never_written(self, shadow: Shadow) -> bool:
        """Whether no block can write this memory, so that reads need no record."""
        written = self._provenance.written
        return (
            written is not None
            and shadow.names <= self._parameters
            and not shadow.names & written
            and not shadow.was_written
        )

    def _number(self, record: _Record) -> int:
        """Return the number of an access in the shadows, counted from 1.

        Equal records share a number, so that long loops need no more memory.
        """
        number = self._numbers.get(record)
        if number is None:
            self._records.append(record)
            number = self._numbers[record] = len(self._records)
        return number

    def _stray(self, access: Access, shadow: Shadow) -> None:
        """Report pointers outside of their parameter's elements.

        They may point to other memory, or to its own.
        """
        names = self._provenance.of(access.op) if self._parameters else None
        if names is None or (access.mask is not None and not access.mask.any()):
            return
        if names & shadow.names:
            if len(names) == 1:
                self._beyond(access)
            return
        where = np.unravel_index(
            0 if access.mask is None else int(access.mask.argmax()), access.offsets.shape
        )
        address = access.region.address + int(access.offsets[where])
        home = self._home(access.op)
        name = home.name if home is not None else min(names)
        index = home.element(address - home.address) if home is not None else ()
        verb = "reads" if access.kind is AccessKind.READ else "writes"
        landed = (
            f"which has {home.data.size // home.itemsize}"
            if home is not None
            else "which has no elements"
        )
        shadow.was_written |= access.kind is not AccessKind.READ
        self._add(
            (FindingKind.OUT_OF_BOUNDS, access.op.number, name),
            Finding(
                kind=FindingKind.OUT_OF_BOUNDS,
                what=f"{verb} element [{index_text(index)}] of {name}, {landed}: that is memory of {access.region.name}",
                location=access.op.loc,
                block=access.frame.place(int(where[0])),
                parameter=name,
                index=index,
                count=access.offsets.size if access.mask is None else int(access.mask.sum()),
                hint=_MASK_HINT,
            ),
        )

    def _beyond(self, access: Access) -> None:
        """Report accesses within an array's span that are not elements of the array."""
        home = self._home(access.op)
        off = self._extents.beyond(access, home) if home is not None else None
        if home is None or off is None:
            return
        first = np.unravel_index(int(off.argmax()), off.shape)
        index, where = self._extents.described(
            access, home, tuple(int(position) for position in first)
        )
        self._add(
            (FindingKind.OUT_OF_BOUNDS, access.op.number, home.name, False),
            Finding(
                kind=FindingKind.OUT_OF_BOUNDS,
                what=f"{'reads' if access.kind is AccessKind.READ else 'writes'} {where}",
                location=access.op.loc,
                block=access.frame.place(int(first[0])),
                parameter=home.name,
                index=index,
                count=int(off.sum()),
                hint=_MASK_HINT,
            ),
        )

    def _home(self, op: Op) -> MemoryRegion | None:
        """Return the memory of the parameter of an access, or None if unknown."""
        names = self._provenance.of(op) if self._parameters else None
        return (
            next((region for region in self._memory.regions if region.name in names), None)
            if names
            else None
        )

    def _uninitialized_read(self, access: Access, shadow: Shadow, touch: Touch) -> None:
        if (
            shadow.blank is None
            or access.kind is AccessKind.WRITE
            or access.op.attributes.get("mode") is AtomicMode.XCHG
        ):
            return
        blank = np.flatnonzero(shadow.blank[touch.cells])
        if len(blank):
            name = access.region.name
            at = int(blank[0])
            index = self._element(access.region, shadow, touch.cell(at))
            self._add(
                (FindingKind.UNINITIALIZED, access.op.number, name),
                Finding(
                    kind=FindingKind.UNINITIALIZED,
                    what=f"reads {name}[{index_text(index)}], which nothing has written",
                    location=access.op.loc,
                    block=_block_index(access, touch.blocks[at]),
                    parameter=name,
                    index=index,
                    count=len(blank),
                    hint="give the parameter contents in the case if the kernel is to read them",
                ),
            )

    def _against_writers(self, access: Access, shadow: Shadow, touch: Touch, number: int) -> None:
        self._conflicts(access, shadow, touch, number, shadow.writer[touch.cells], shadow.write)

    def _against_readers(self, access: Access, shadow: Shadow, touch: Touch, number: int) -> None:
        for reader, which in ((shadow.reader, shadow.read), (shadow.reader_too, shadow.read_too)):
            self._conflicts(access, shadow, touch, number, reader[touch.cells], which)

    def _conflicts(
        self,
        access: Access,
        shadow: Shadow,
        touch: Touch,
        number: int,
        owner: Array,
        accesses: Array,
    ) -> None:
        """Report data races with earlier accesses by the blocks in `owner`.

        A race has two blocks, no order between the accesses, and at least one access that is not
        strong.
        """
        other = owner != touch.blocks
        if not other.any():
            return
        at = np.flatnonzero(other & (owner != 0))
        if not len(at):
            return
        now, which = self._records[number - 1], accesses[touch.cells][at]
        numbers = np.unique(which).tolist()
        for earlier in numbers:
            record = self._records[earlier - 1]
            if record.strong and now.strong:
                continue
            mine = at[which == earlier]
            races = (
                mine
                if not self._log.time
                else self._unordered(mine, owner, touch.blocks, record, now, len(numbers))
            )
            if len(races):
                self._race(access, shadow, touch, record, races, owner)

    def _unordered(
        self, at: Array, owner: Array, blocks: Array, record: _Record, now: _Record, records: int
    ) -> Array:
        pairs, which = np.unique(np.stack([owner[at], blocks[at]]), axis=1, return_inverse=True)
        many = len(np.unique(pairs[0])) * records > len(np.unique(pairs[1]))
        free = [
            not self._log.ordered(one - 1, record.time, two - 1, now.time, backward=many)
            for one, two in pairs.T.tolist()
        ]
        unordered: Array = at[np.array(free, np.bool_)[which.reshape(-1)]]
        return unordered

    def _race(
        self, access: Access, shadow: Shadow, touch: Touch, record: _Record, at: Array, owner: Array
    ) -> None:
        first = int(at[0])
        name = access.region.name
        index = self._element(access.region, shadow, touch.cell(first))
        both_write = AccessKind.READ not in (access.kind, record.kind)
        kind = FindingKind.WRITE_RACE if both_write else FindingKind.READ_RACE
        block = _block_index(access, touch.blocks[first])
        other = _block_index(access, owner[first])
        verbs = (_VERBS[access.kind, is_strong(access)], _VERBS[record.kind, record.strong])
        self._add(
            (kind, *sorted((access.op.number, record.op.number)), name),
            Finding(
                kind=kind,
                what=f"block {block} {verbs[0]} {name}[{index_text(index)}], which block {other} {verbs[1]} in the same launch",
                location=access.op.loc,
                block=block,
                parameter=name,
                index=index,
                other=Side(what=verbs[1], location=record.op.loc, block=other),
                count=len(at),
                hint=_RACE_HINT
                if both_write
                else "blocks run in any order: split the kernel in two, or order them with atomics",
            ),
        )

    def _element(self, region: MemoryRegion, shadow: Shadow, cell: int) -> tuple[int, ...]:
        return region.element(shadow.offset(cell, region))

    def _in_blocks(
        self, kind: FindingKind, op: Op, frame: Frame, at: Array, what: str, hint: str = ""
    ) -> None:
        rows = np.flatnonzero(at)
        block = frame.place(int(rows[0]))
        self._add(
            (kind, op.number),
            Finding(kind=kind, what=what, location=op.loc, block=block, count=len(rows), hint=hint),
        )

    def _add(self, where: tuple[Any, ...], finding: Finding) -> None:
        """Keep the first finding of a location, and count the others."""
        known = self._findings.get(where)
        if known is not None:
            self._findings[where] = dataclasses.replace(known, count=known.count + finding.count)
        elif len(self._findings) < _MOST_FINDINGS:
            self._findings[where] = finding


def _block_index(access: Access, number: Any) -> BlockIndex:
    """Return the index of a block by its number in a shadow, which counts from 1."""
    return coordinates(access.frame.launch.grid, int(number) - 1)


_MASK_HINT = "mask the access where it is beyond the tensor"
_PROMISED_HINT = "leave the bounds check on, or launch only shapes for which the declaration holds"
_TILE_HINT = "only a part of a tile may lie outside: launch no block, and make no pass of a loop, that has no part inside"
_RACE_HINT = "give each element to one block, or combine with an atomic"
_VERBS: Mapping[tuple[AccessKind, bool], str] = {
    (AccessKind.READ, False): "reads",
    (AccessKind.READ, True): "reads (atomically)",
    (AccessKind.WRITE, False): "writes",
    (AccessKind.WRITE, True): "writes (atomically)",
    (AccessKind.ATOMIC, False): "updates",
    (AccessKind.ATOMIC, True): "updates (atomically)",
}
