"""An observer that remembers what it is told."""

from __future__ import annotations

import dataclasses

import numpy as np

from tilec_runtime.cpu.tileir.frame import Access, Frame, Outside
from tilec_runtime.cpu.tileir.ir import Op
from tilec_runtime.cpu.tileir.values import Array, Layout


@dataclasses.dataclass
class Watcher:
    """Attributes:
    broken: for each assumption or assertion that does not hold, the blocks. wrapped: the same for
        integer operations that overflow.
    names: of operations with floating point results.
    """

    go_on: bool = False
    accesses: list[Access] = dataclasses.field(default_factory=list)
    outsides: list[Outside] = dataclasses.field(default_factory=list)
    broken: list[list[int]] = dataclasses.field(default_factory=list)
    wrapped: list[list[int]] = dataclasses.field(default_factory=list)
    names: list[str] = dataclasses.field(default_factory=list)

    def access(self, access: Access) -> None:
        assert access.offsets.shape[0] == access.frame.size
        assert access.mask is None or access.mask.shape == access.offsets.shape
        assert access.offsets.min() >= 0
        assert access.offsets.max() + access.size <= access.region.data.size
        self.accesses.append(access)

    def outside(self, outside: Outside) -> bool:
        self.outsides.append(outside)
        return self.go_on

    def elements(self, layout: Layout) -> set[tuple[int, int]]:
        """All elements that were touched: block and byte offset."""
        found = set()
        for access in self.accesses:
            assert access.size == layout.size
            mask = np.ones(access.offsets.shape, np.bool_) if access.mask is None else access.mask
            rows = np.nonzero(mask)[0]
            found |= set(
                zip(access.frame.blocks[rows].tolist(), access.offsets[mask].tolist(), strict=True)
            )
        return found

    def assumed(self, op: Op, frame: Frame, broken: Array) -> None:
        self.broken.append(frame.blocks[broken].tolist())

    def asserted(self, op: Op, frame: Frame, failed: Array) -> bool:
        self.broken.append(frame.blocks[failed].tolist())
        return self.go_on

    def overflowed(self, op: Op, frame: Frame, wrapped: Array) -> None:
        self.wrapped.append(frame.blocks[wrapped].tolist())

    def computed(self, op: Op, frame: Frame) -> None:
        assert all(frame.get(result) is not None for result in op.results)
        self.names.append(op.name)
