"""The values that cross the seam between tilec and a driver.

They are facts of devices, launches, copies and pools.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from tilec_runtime.device.layout import TensorFacts, byte_range
from tilec_runtime.model.arch import Version
from tilec_runtime.values import value_class

Dim3 = tuple[int, int, int]
# Opaque handles, which only their driver reads.
ModuleHandle = Any
FunctionHandle = Any
PoolHandle = Any
GraphHandle = Any
ExecutableHandle = Any
# The release threshold of a pool that keeps all unused memory.
KEEP_ALL = 2**64 - 1
# Enqueues one launch. The arguments are the address of the array of parameter addresses, and 0. It
# returns a sequence whose first item is the driver's result, 0 for success. It is bound once per
# plan and stream, so that a launch costs one call with two arguments. A driver that holds arguments
# gets (addresses of the tensors, all arguments of the call) instead of the 0.
LaunchCall = Callable[[int, Any], Any]


@value_class(frozen=True, kw_only=True)
class DeviceInfo:
    """Facts and launch limits of one GPU, or of the cpu device.

    Attributes:
        ordinal: the device's number, after CUDA_VISIBLE_DEVICES; -1 for the cpu device.
        name: product name.
        cc: compute capability.
        driver: CUDA release that the driver supports.
        max_grid, max_block: largest extents per axis.
        max_threads: most threads of one block.
        shared_default: shared memory in bytes that a block gets without opting in.
        shared_optin: most shared memory in bytes that a block can opt in to.
        multiprocessors: number of multiprocessors.
        cooperative, cluster: whether such launches are supported.
        l2: bytes of the L2 cache; 0 if there is none, or if the size is unknown.
        interprets: oldest and newest version of Tile IR that the cpu device runs. None for a GPU.
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
        """The values that expressions of a launch may name, as `DEVICE_FACTS` lists them."""
        return {
            "sm_count": self.multiprocessors,
            "cc": self.cc[0] * 10 + self.cc[1],
            "block_shared": self.shared_optin,
            "l2_size": self.l2,
        }

    def __str__(self) -> str:
        """Return `device 0 (NVIDIA H200)`, or `the cpu device`."""
        return "the cpu device" if self.interprets else f"device {self.ordinal} ({self.name})"


@value_class(frozen=True, kw_only=True)
class FunctionFacts:
    """Facts of a loaded entry point.

    Attributes:
        max_threads: most threads per block.
        static_shared: static shared memory in bytes.
        registers: registers per thread.
        cluster: the cluster that it was compiled for; empty for none.
    """

    max_threads: int
    static_shared: int
    registers: int
    cluster: tuple[int, ...] = ()


def dim3(extents: Sequence[int]) -> Dim3:
    """Return three extents; missing ones are 1."""
    x, y, z = (*extents, 1, 1, 1)[:3]
    return x, y, z


@value_class(frozen=True, kw_only=True)
class LaunchShape:
    """Everything of a launch but its function, arguments and stream.

    Attributes:
        shared: dynamic shared memory in bytes.
        cluster: extents of a cluster; empty for none.
        programmatic: whether it may start before the preceding launch is done.
    """

    grid: Dim3
    block: Dim3
    shared: int = 0
    cluster: tuple[int, ...] = ()
    cooperative: bool = False
    programmatic: bool = False

    @property
    def cluster_dim(self) -> Dim3 | None:
        """Extents of the cluster, or None for one block.

        Older devices refuse the attribute even for one block.
        """
        extents = dim3(self.cluster)
        return None if extents == (1, 1, 1) else extents


@value_class(frozen=True, kw_only=True)
class TensorPart:
    """The facts of one tensor of a launch, apart from its address.

    Attributes:
        name: the parameter.
        first, end: its first byte and the byte behind its last one, relative to its address; equal
            for an empty tensor.
        itemsize: bytes of an element.
        shape, stride: in elements.
        readonly: whether it must not be written.
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
        """Return the part for a tensor's facts."""
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
        """Return the part for an optional tensor that is None; it has no bytes."""
        return cls(name=name, first=0, end=0, itemsize=1, shape=(), stride=(), readonly=True)


@value_class(frozen=True, kw_only=True)
class LaunchParts:
    """Kernel and arguments of a launch, for a driver that runs kernels itself.

    Attributes:
        kernel: id of the variant.
        sizes: bytes of each argument of the entry point.
        addresses: (place among these, parameter) of plain addresses, whose tensor is unknown.
        tensors: the tensors in the order of the launcher's parameters.
        slots: the expression of each argument over the launcher's parameters (`x.ptr`,
            `x.shape[0]`); empty if unknown.
    """

    kernel: str
    sizes: tuple[int, ...]
    addresses: tuple[tuple[int, str], ...]
    tensors: tuple[TensorPart, ...]
    slots: tuple[str, ...] = ()


class CopyKind(enum.Enum):
    """Direction of a copy: between host and device memory, or within either kind."""

    TO_DEVICE = "to the device"
    TO_HOST = "to the host"
    ON_DEVICE = "on the device"
    ON_HOST = "on the host"


@value_class(frozen=True, kw_only=True)
class CopyBox:
    """Rows of bytes, in slices, that one call copies.

    All but `rows` and `slices` is in bytes.

    Attributes:
        width: width of a row.
        rows: rows in each slice.
        slices: number of slices.
        target_pitch, source_pitch: distance of rows; at least the width.
        target_slice, source_slice: distance of slices; a multiple of the pitch, with room for all
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
        """Bytes from the first byte written to behind the last."""
        return (
            (self.slices - 1) * self.target_slice + (self.rows - 1) * self.target_pitch + self.width
        )

    @property
    def source_reach(self) -> int:
        """Bytes from the first byte read to behind the last."""
        return (
            (self.slices - 1) * self.source_slice + (self.rows - 1) * self.source_pitch + self.width
        )


@value_class(frozen=True, kw_only=True)
class PoolStats:
    """The memory that a pool holds, in bytes.

    Attributes:
        used: allocated and not freed yet.
        reserved: taken from the device, used or unused.
        used_high, reserved_high: the maximum of each since the pool was created.
        release_threshold: unused memory beyond this returns to the device at a synchronization.
    """

    used: int
    reserved: int
    used_high: int
    reserved_high: int
    release_threshold: int


class GridRule(enum.Enum):
    """The relation that a launch's grid must have to a wish."""

    EXACTLY = "exactly"
    AT_MOST = "at most"
    INSTEAD = "instead of the kernel's own"


@value_class(frozen=True, kw_only=True)
class GridWish:
    """A grid that a caller asks for, and the source of the wish (`partition z`)."""

    grid: Dim3
    rule: GridRule
    source: str
