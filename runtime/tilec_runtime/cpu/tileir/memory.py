"""The memory of a kernel on the cpu device: named regions of bytes by address."""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.values import Array

# Addresses of regions that tilec creates are beyond the address space of a process, so that they do
# not overlap the caller's arrays.
_FIRST_NEW = 1 << 48
# Bytes left free after each such region, so that an index slightly out of range hits no memory.
_GAP = 1 << 20
_LARGE = 31 << 20


class MemoryRegion:
    """Bytes at an address.

    Attributes:
        name: name of the parameter or the variable, for messages.
        address: address of the first byte, as the kernel sees it.
        data: the bytes, a one-dimensional uint8 view of the caller's memory.
        writable: whether a kernel may write to it.
        itemsize: size of the parameter's elements in bytes, 1 if unknown.
        shape, strides: shape and strides of the parameter's tensor in elements; None if unknown.
            They serve messages only.
        origin: byte offset of the tensor's first element; nonzero if a stride is negative.
    """

    __slots__ = (
        "_typed",
        "address",
        "data",
        "itemsize",
        "name",
        "origin",
        "shape",
        "strides",
        "writable",
    )

    def __init__(
        self,
        name: str,
        address: int,
        data: Array,
        *,
        writable: bool = True,
        itemsize: int = 1,
        shape: tuple[int, ...] | None = None,
        strides: tuple[int, ...] | None = None,
        origin: int = 0,
    ) -> None:
        self.name = name
        self.address = address
        self.data = data
        self.writable = writable
        self.itemsize = itemsize
        self.shape = shape
        self.strides = strides
        self.origin = origin
        self._typed: dict[np.dtype[Any], tuple[Array, int]] = {}

    @property
    def end(self) -> int:
        """The address behind the last byte."""
        return self.address + self.data.size

    def typed(self, dtype: np.dtype[Any]) -> tuple[Array, int]:
        """Return the region as aligned elements, and the byte offset of the first."""
        view = self._typed.get(dtype)
        if view is None:
            size = dtype.itemsize
            lead = -self.address % size
            count = max(self.data.size - lead, 0) // size
            view = self._typed[dtype] = (self.data[lead : lead + count * size].view(dtype), lead)
        return view

    def element(self, offset: int) -> tuple[int, ...]:
        """Return the index of the parameter's element at a byte offset.

        It has one number per dimension, or a single number if the offset is outside of the bytes.
        """
        flat = (offset - self.origin) // self.itemsize
        if self.shape is None or self.strides is None or not 0 <= offset < self.data.size:
            return (flat,)
        index = [0] * len(self.shape)
        # Divide the offset by the strides, the largest first. A negative stride counts from its far
        # end.
        far = sum(
            -stride * (extent - 1)
            for stride, extent in zip(self.strides, self.shape, strict=True)
            if stride < 0
        )
        left = flat + far
        for dim in sorted(
            range(len(index)), key=lambda item: -abs(self.strides[item]) if self.strides else 0
        ):
            stride, extent = self.strides[dim], self.shape[dim]
            if stride and extent > 1:
                steps = min(left // abs(stride), extent - 1)
                left -= steps * abs(stride)
                index[dim] = steps if stride > 0 else extent - 1 - steps
        return tuple(index)

    def __repr__(self) -> str:
        """Show name, address and size."""
        return f"MemoryRegion({self.name!r}, {self.address:#x}, {self.data.size} bytes)"


class Memory:
    """All regions of a launch, which one thread uses.

    Regions overlap if a launch passes one array for two parameters.

    Attributes:
        regions: all regions, sorted by address.
    """

    def __init__(self, regions: Iterable[MemoryRegion] = ()) -> None:
        _keep_pages()
        self._next = _FIRST_NEW
        self._sort(regions)

    def _sort(self, regions: Iterable[MemoryRegion]) -> None:
        self.regions = tuple(sorted(regions, key=lambda region: (region.address, region.data.size)))
        self._starts = [region.address for region in self.regions]
        # The highest end of each region and all before it; a search stops there.
        self._reach = list(itertools.accumulate((region.end for region in self.regions), max))

    def discard(self, region: MemoryRegion) -> None:
        """Remove a region; a missing region is no error."""
        self._sort(item for item in self.regions if item is not region)

    def new(self, name: str, size: int, alignment: int = 16) -> MemoryRegion:
        """Create a region of zeros at an unused address."""
        address = -(-self._next // alignment) * alignment
        self._next = address + size + _GAP
        region = MemoryRegion(name, address, np.zeros(size, np.uint8))
        self._sort((*self.regions, region))
        return region

    def find(self, address: int, writing: bool = False) -> MemoryRegion | None:
        """Return the region that contains an address, or None.

        Of several, it is the one with the highest end; if `writing`, writable ones go first.
        """
        at = bisect.bisect_right(self._starts, address) - 1
        best: MemoryRegion | None = None
        while at >= 0 and self._reach[at] > address:
            region = self.regions[at]
            if region.end > address and (
                best is None or _rank(region, writing) > _rank(best, writing)
            ):
                best = region
            at -= 1
        return best

    def nearest(self, address: int) -> MemoryRegion | None:
        """Return the region with an address, or the closest; None without regions."""
        held = self.find(address)
        if held is not None:
            return held
        return min(
            self.regions,
            key=lambda item: max(item.address - address, address - item.end + 1),
            default=None,
        )


@functools.cache
def _keep_pages() -> None:
    """Make the C library keep the memory of freed tiles.

    glibc returns freed memory to the system, and new pages cost more than most operations on them.
    It keeps blocks up to the size of the largest block below 32 MiB that was freed. This allocates
    and frees such a block, which takes no physical memory, since it is never accessed.
    """
    np.empty(_LARGE, np.uint8)


def _rank(region: MemoryRegion, writing: bool) -> tuple[bool, int]:
    return region.writable and writing, region.end
