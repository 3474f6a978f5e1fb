"""The memory that a kernel on the cpu device may touch: named regions of bytes, each at an address
of its own.
"""

from __future__ import annotations

import bisect
import functools
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from tilec_runtime.cpu.tileir.values import Array

# Addresses of regions that tilec makes start beyond what a process can have, so that they meet no
# array of the caller.
_FIRST_NEW = 1 << 48
# Left free after each such region: an index that is a little off hits nothing.
_GAP = 1 << 20
_LARGE = 31 << 20


class MemoryRegion:
    """Bytes at an address.

    Attributes:
        name: of the parameter or the variable, for messages.
        address: of the first byte, as the kernel sees it.
        data: the bytes: one-dimensional, uint8, a view of the caller's.
        writable: whether a kernel may store here.
        itemsize: bytes of an element of the parameter, 1 if unknown.
        shape, strides: of the parameter's tensor, in elements; None if unknown. They only serve
            messages.
        origin: byte offset of the tensor's first element, which is not 0 where a stride is
            negative.
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

    @classmethod
    def of(cls, name: str, array: Array, writable: bool = True) -> MemoryRegion:
        """The bytes from an array's first to its last element, whatever its strides, at their real
        address.
        """
        low, size = _extent(array)
        shape: tuple[int, ...] | None = array.shape
        strides: tuple[int, ...] | None = None
        if array.itemsize and all(stride % array.itemsize == 0 for stride in array.strides):
            strides = tuple(stride // array.itemsize for stride in array.strides)
        else:
            shape = None
        can_write = writable and array.flags.writeable
        data = np.asarray(_Bytes(array, low, size, array.flags.writeable))
        origin = array.ctypes.data - low if size else 0
        return cls(
            name,
            low,
            data,
            writable=can_write,
            itemsize=max(array.itemsize, 1),
            shape=shape,
            strides=strides,
            origin=origin,
        )

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.address + self.data.size

    def typed(self, dtype: np.dtype[Any]) -> tuple[Array, int]:
        """All whole elements of a type at addresses that are multiples of its size, and the byte
        offset of the first.
        """
        view = self._typed.get(dtype)
        if view is None:
            size = dtype.itemsize
            lead = -self.address % size
            count = max(self.data.size - lead, 0) // size
            view = self._typed[dtype] = (self.data[lead : lead + count * size].view(dtype), lead)
        return view

    def element(self, offset: int) -> tuple[int, ...]:
        """Which element of the parameter lies at a byte offset, one number per dimension; beyond
        the bytes one number.
        """
        flat = (offset - self.origin) // self.itemsize
        if self.shape is None or self.strides is None or not 0 <= offset < self.data.size:
            return (flat,)
        index = [0] * len(self.shape)
        # From the widest stride down, each index takes what it can. A negative stride counts from
        # its far end.
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
        """Name, address and size."""
        return f"MemoryRegion({self.name!r}, {self.address:#x}, {self.data.size} bytes)"


class Memory:
    """All regions of a launch or of a device. Regions may overlap: one array can be given for two
    parameters. Threads may share it.
    """

    def __init__(self, regions: Iterable[MemoryRegion] = ()) -> None:
        _keep_pages()
        self._lock = threading.Lock()
        self._next = _FIRST_NEW
        self._table = _Table(tuple(regions))

    @property
    def regions(self) -> tuple[MemoryRegion, ...]:
        """Sorted by address."""
        return self._table.regions

    def add(self, region: MemoryRegion) -> None:
        """From now on kernels may touch this region."""
        with self._lock:
            self._table = _Table((*self._table.regions, region))

    def discard(self, region: MemoryRegion) -> None:
        """From now on kernels may not touch this region; nothing happens if they could not."""
        with self._lock:
            self._table = _Table(tuple(item for item in self._table.regions if item is not region))

    def new(self, name: str, size: int, alignment: int = 16) -> MemoryRegion:
        """A region of zeros at an address that overlaps no other's."""
        with self._lock:
            address = -(-self._next // alignment) * alignment
            self._next = address + size + _GAP
        region = MemoryRegion(name, address, np.zeros(size, np.uint8))
        self.add(region)
        return region

    def find(self, address: int, writing: bool = False) -> MemoryRegion | None:
        """The region that holds an address: of several the one that reaches furthest, `writing` one
        that may be written if there is.
        """
        return self._table.find(address, writing)

    def nearest(self, address: int) -> MemoryRegion | None:
        """The region that an address is in or closest to; None if there is none."""
        held = self.find(address)
        if held is not None:
            return held
        return min(
            self.regions,
            key=lambda item: max(item.address - address, address - item.end + 1),
            default=None,
        )


class _Table:
    """Regions sorted for searching; never changed, so that a search needs no lock."""

    __slots__ = ("reach", "regions", "starts")

    def __init__(self, regions: tuple[MemoryRegion, ...]) -> None:
        self.regions = tuple(sorted(regions, key=lambda region: (region.address, region.data.size)))
        self.starts = [region.address for region in self.regions]
        # The furthest end of each region and all before it: says when a search may stop.
        reach = 0
        self.reach = [reach := max(reach, region.end) for region in self.regions]

    def find(self, address: int, writing: bool) -> MemoryRegion | None:
        at = bisect.bisect_right(self.starts, address) - 1
        best: MemoryRegion | None = None
        while at >= 0 and self.reach[at] > address:
            region = self.regions[at]
            if region.end > address and (
                best is None or _rank(region, writing) > _rank(best, writing)
            ):
                best = region
            at -= 1
        return best


@functools.cache
def _keep_pages() -> None:
    """Let the C library keep memory that tiles leave.

    glibc gives freed memory back to the system, and fresh pages cost more than what most operations
    do with them. It stops doing so for sizes up to that of the largest block, of less than 32 MiB,
    that it saw freed. A block that is never accessed takes no memory.
    """
    np.empty(_LARGE, np.uint8)


class _Bytes:
    """Lets NumPy see an array's extent as bytes; keeps the array alive."""

    def __init__(self, array: Array, low: int, size: int, writeable: bool) -> None:
        self.array = array
        self.__array_interface__ = {
            "data": (low, not writeable),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }


def _extent(array: Array) -> tuple[int, int]:
    """Lowest address and number of bytes of an array's elements."""
    if array.size == 0:
        return array.ctypes.data, 0
    low = high = array.ctypes.data
    for extent, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += stride * (extent - 1)
        else:
            high += stride * (extent - 1)
    return low, high + array.itemsize - low


def _rank(region: MemoryRegion, writing: bool) -> tuple[bool, int]:
    return region.writable and writing, region.end
