"""The values that cross the seam between tilec and a driver: facts of devices, launches, copies and
pools.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from tilec_runtime.device.layout import TensorFacts, byte_range
from tilec_runtime.model.arch import Version
from tilec_runtime.values import value_class

Dim3 = tuple[int, int, int]
# Opaque handles of the driver: whatever it gives is handed back to it.
ModuleHandle = Any
FunctionHandle = Any
PoolHandle = Any
GraphHandle = Any
ExecutableHandle = Any
# The release threshold of a pool that gives nothing back by itself.
KEEP_ALL = 2**64 - 1
# Enqueues one launch: (address of the array of parameter addresses, 0) gives a sequence whose first
# item is the result, false for success. Bound once per plan and stream, so that a launch pays for
# one call with two arguments. A driver that holds arguments gets (addresses of the tensors first,
# all arguments of the call) in place of the 0.
LaunchCall = Callable[[int, Any], Any]


@value_class(frozen=True, kw_only=True)
class DeviceInfo:
    """One GPU, or the cpu device: what it is and what a launch on it may ask for.

    Attributes:
        ordinal: its number, after CUDA_VISIBLE_DEVICES; -1 for the cpu device, as tensors of it
            say.
        name: product name.
        cc: compute capability.
        driver: CUDA release that the driver serves.
        max_grid, max_block: largest extents per axis.
        max_threads: most threads of one block.
        shared_default: shared memory in bytes that a block gets without opting in; shared_optin:
            the most it can opt in to.
        multiprocessors: number of multiprocessors.
        cooperative, cluster: whether such launches are supported.
        l2: bytes of its second-level cache; 0 where it has none, or where that is not known.
        interprets: oldest and newest version of Tile IR that it runs itself: it is the cpu device.
            None for a GPU.
    """

    ordinal: int
    name: str
    cc: Version
    driver: Version
    max_grid: Dim3 = (2**31 - 1, 65535, 65535)
    max_block: Dim3 = (1024, 1024, 64)
    max_threads: int = 1024
    shared_default: int = 48 * 1024
    shared_optin: int = 48 * 1024
    multiprocessors: int = 1
    cooperative: bool = True
    cluster: bool = False
    l2: int = 0
    interprets: tuple[Version, Version] | None = None

    @property
    def facts(self) -> dict[str, int]:
        """What expressions of a launch may name, as `DEVICE_FACTS` lists it."""
        return {
            "sm_count": self.multiprocessors,
            "cc": self.cc[0] * 10 + self.cc[1],
            "block_shared": self.shared_optin,
            "l2_size": self.l2,
        }

    def __str__(self) -> str:
        """`device 0 (NVIDIA H200)`, or `the cpu device`."""
        return "the cpu device" if self.interprets else f"device {self.ordinal} ({self.name})"


@value_class(frozen=True, kw_only=True)
class FunctionFacts:
    """What the driver says of a loaded entry point: most threads per block, static shared memory in
    bytes, registers per thread; and the cluster that it was compiled for, empty for none.
    """

    max_threads: int
    static_shared: int
    registers: int
    cluster: tuple[int, ...] = ()


def dim3(extents: Sequence[int]) -> Dim3:
    """Three extents of up to three: those left out are ones."""
    x, y, z = (*extents, 1, 1, 1)[:3]
    return x, y, z


@value_class(frozen=True, kw_only=True)
class LaunchShape:
    """Everything of a launch but its arguments and stream. `shared` is dynamic shared memory in
    bytes; `cluster` empty for none; `programmatic` lets it begin before the launch in front of it
    is done.
    """

    grid: Dim3
    block: Dim3
    shared: int = 0
    cluster: tuple[int, ...] = ()
    cooperative: bool = False
    programmatic: bool = False

    @property
    def cluster_dim(self) -> Dim3 | None:
        """Extents of its cluster; None for one block: older devices refuse the attribute then."""
        extents = dim3(self.cluster)
        return None if extents == (1, 1, 1) else extents


@value_class(frozen=True, kw_only=True)
class TensorPart:
    """What a launch knows of one tensor but its address.

    Attributes:
        name: of the parameter.
        first, end: its bytes, from the first to past the last, relative to its address; equal for a
            tensor of no elements.
        itemsize: bytes of an element.
        shape, stride: in elements.
        readonly: must not be written.
    """

    name: str
    first: int
    end: int
    itemsize: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    readonly: bool

    @classmethod
    def of(cls, name: str, facts: TensorFacts) -> TensorPart:
        """What the facts of a tensor say."""
        first, end = byte_range(facts)
        return cls(
            name=name,
            first=first,
            end=end,
            itemsize=facts.itemsize,
            shape=facts.shape,
            stride=facts.stride,
            readonly=facts.readonly,
        )

    @classmethod
    def absent(cls, name: str) -> TensorPart:
        """One that is None: it has no bytes."""
        return cls(name=name, first=0, end=0, itemsize=1, shape=(), stride=(), readonly=True)


@value_class(frozen=True, kw_only=True)
class LaunchParts:
    """What a launch is of, for a driver that runs kernels itself.

    Attributes:
        kernel: id of the variant.
        sizes: bytes of each argument of the entry point.
        addresses: (place among these, parameter) of arguments that are plain addresses, of which
            nothing else is known.
        tensors: in the order of the launcher's parameters.
        slots: what each argument is of the launcher's parameters (`x.ptr`, `x.shape[0]`); none
            where it is unknown.
    """

    kernel: str
    sizes: tuple[int, ...]
    addresses: tuple[tuple[int, str], ...]
    tensors: tuple[TensorPart, ...]
    slots: tuple[str, ...] = ()


class CopyKind(enum.Enum):
    """From where to where a copy goes: between host memory and device memory, or inside either (of
    one device or of two).
    """

    TO_DEVICE = "to the device"
    TO_HOST = "to the host"
    ON_DEVICE = "on the device"
    ON_HOST = "on the host"


@value_class(frozen=True, kw_only=True)
class CopyBox:
    """Rows of bytes, and slices of rows, that one call copies. All in bytes but `rows` and
    `slices`.

    Attributes:
        width: of a row.
        rows: in each slice.
        slices: how many.
        target_pitch, source_pitch: from row to row; no less than the width.
        target_slice, source_slice: from slice to slice; a multiple of the pitch, with room for all
            rows.
    """

    width: int
    rows: int
    slices: int
    target_pitch: int
    source_pitch: int
    target_slice: int
    source_slice: int

    @property
    def target_reach(self) -> int:
        """Bytes from the first to past the last that is written."""
        return (
            (self.slices - 1) * self.target_slice + (self.rows - 1) * self.target_pitch + self.width
        )

    @property
    def source_reach(self) -> int:
        """Bytes from the first to past the last that is read."""
        return (
            (self.slices - 1) * self.source_slice + (self.rows - 1) * self.source_pitch + self.width
        )


@value_class(frozen=True, kw_only=True)
class PoolStats:
    """What a memory pool holds, in bytes.

    Attributes:
        used: allocated and not yet given back.
        reserved: taken from the device, used or kept for later.
        used_high, reserved_high: the most of each since the pool was made.
        release_threshold: what is kept for later beyond this goes back to the device when something
            is waited for.
    """

    used: int
    reserved: int
    used_high: int
    reserved_high: int
    release_threshold: int


class GridRule(enum.Enum):
    """How a launch's grid has to agree with what a caller says."""

    EXACTLY = "exactly"
    AT_MOST = "at most"
    INSTEAD = "instead of the kernel's own"


@value_class(frozen=True, kw_only=True)
class GridWish:
    """A grid that a caller asks for, and who says so (`partition z`)."""

    grid: Dim3
    rule: GridRule
    source: str
