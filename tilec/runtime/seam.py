"""What tilec asks of a driver of devices: the protocol that `_driver` fulfils for CUDA and that tests fake, with its value types."""

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from tilec.model.arch import Version
from tilec.runtime.layout import TensorFacts, byte_range
from tilec.values import value_class

Dim3 = tuple[int, int, int]
# Opaque handles of the driver: whatever it gives is handed back to it.
ModuleHandle = Any
FunctionHandle = Any
PoolHandle = Any
GraphHandle = Any
ExecutableHandle = Any
# The release threshold of a pool that gives nothing back by itself.
KEEP_ALL = 2**64 - 1
# Enqueues one launch: (address of the array of parameter addresses, 0) gives a sequence whose first item is the result, false for
# success. Bound once per plan and stream, so that a launch pays for one call with two arguments. A driver that holds arguments gets
# (addresses of the tensors first, all arguments of the call) in place of the 0.
LaunchCall = Callable[[int, Any], Any]


@value_class(frozen=True, kw_only=True, slots=True)
class DeviceInfo:
    """One GPU, or the cpu device: what it is and what a launch on it may ask for.

    Attributes:
        ordinal: its number, after CUDA_VISIBLE_DEVICES; -1 for the cpu device, as tensors of it say.
        name: product name.
        cc: compute capability. driver: CUDA release that the driver serves.
        max_grid, max_block: largest extents per axis. max_threads: most threads of one block.
        shared_default: shared memory in bytes that a block gets without opting in; shared_optin: the most it can opt in to.
        multiprocessors: number of multiprocessors.
        cooperative, cluster: whether such launches are supported.
        l2: bytes of its second-level cache; 0 where it has none, or where that is not known.
        interprets: oldest and newest version of Tile IR that it runs itself: it is the cpu device. None for a GPU.
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

    def __str__(self) -> str:
        """`device 0 (NVIDIA H200)`, or `the cpu device`."""
        return "the cpu device" if self.interprets else f"device {self.ordinal} ({self.name})"


@value_class(frozen=True, kw_only=True, slots=True)
class FunctionFacts:
    """What the driver says of a loaded entry point: most threads per block, static shared memory in bytes, registers per thread."""

    max_threads: int
    static_shared: int
    registers: int


@value_class(frozen=True, kw_only=True, slots=True)
class LaunchShape:
    """Everything of a launch but its arguments and stream. `shared` is dynamic shared memory in bytes; `cluster` empty for none."""

    grid: Dim3
    block: Dim3
    shared: int = 0
    cluster: tuple[int, ...] = ()
    cooperative: bool = False


@value_class(frozen=True, kw_only=True, slots=True)
class TensorPart:
    """What a launch knows of one tensor but its address.

    Attributes:
        name: of the parameter.
        first, end: its bytes, from the first to past the last, relative to its address; equal for a tensor of no elements.
        itemsize: bytes of an element. shape, stride: in elements.
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


@value_class(frozen=True, kw_only=True, slots=True)
class LaunchParts:
    """What a launch is of, for a driver that runs kernels itself.

    Attributes:
        kernel: id of the variant.
        sizes: bytes of each argument of the entry point.
        addresses: (place among these, parameter) of arguments that are plain addresses, of which nothing else is known.
        tensors: in the order of the launcher's parameters.
        slots: what each argument is of the launcher's parameters (`x.ptr`, `x.shape[0]`); none where nobody knows.
    """

    kernel: str
    sizes: tuple[int, ...]
    addresses: tuple[tuple[int, str], ...]
    tensors: tuple[TensorPart, ...]
    slots: tuple[str, ...] = ()


class CopyKind(enum.Enum):
    """From where to where a copy goes: between host memory and device memory, or inside either (of one device or of two)."""

    TO_DEVICE = "to the device"
    TO_HOST = "to the host"
    ON_DEVICE = "on the device"
    ON_HOST = "on the host"


@value_class(frozen=True, kw_only=True, slots=True)
class CopyBox:
    """Rows of bytes, and slices of rows, that one call copies. All in bytes but `rows` and `slices`.

    Attributes:
        width: of a row. rows: in each slice. slices: how many.
        target_pitch, source_pitch: from row to row; no less than the width.
        target_slice, source_slice: from slice to slice; a multiple of the pitch, with room for all rows.
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
        return (self.slices - 1) * self.target_slice + (self.rows - 1) * self.target_pitch + self.width

    @property
    def source_reach(self) -> int:
        """Bytes from the first to past the last that is read."""
        return (self.slices - 1) * self.source_slice + (self.rows - 1) * self.source_pitch + self.width


@value_class(frozen=True, kw_only=True, slots=True)
class PoolStats:
    """What a memory pool holds, in bytes.

    Attributes:
        used: allocated and not yet given back. reserved: taken from the device, used or kept for later.
        used_high, reserved_high: the most of each since the pool was made.
        release_threshold: what is kept for later beyond this goes back to the device when something is waited for.
    """

    used: int
    reserved: int
    used_high: int
    reserved_high: int
    release_threshold: int


class DeviceDriver(Protocol):
    """A driver as tilec uses it. Every failure is a `DriverError` (or `NoDeviceError`) with cause and fix."""

    @property
    def holds_arguments(self) -> bool:
        """Whether launches keep their arguments alive until they are done; then they get them as they are called."""

    def version(self) -> Version:
        """CUDA release that the driver serves."""

    def device_count(self) -> int:
        """Number of visible devices."""

    def device(self, ordinal: int) -> DeviceInfo:
        """Facts about one device."""

    def current(self, ordinal: int) -> AbstractContextManager[None]:
        """Make the device's primary context current, and restore the thread's own afterwards."""

    def adopt(self, ordinal: int) -> None:
        """Give a thread that has no context the device's primary one, for good."""

    def load_module(self, ordinal: int, data: bytes) -> ModuleHandle:
        """Load an image into the device's primary context."""

    def function(self, module: ModuleHandle, symbol: str) -> FunctionHandle:
        """Look up an entry point."""

    def function_facts(self, function: FunctionHandle) -> FunctionFacts:
        """Resources of an entry point."""

    def allow_shared(self, function: FunctionHandle, size: int) -> None:
        """Let launches of the function use up to `size` bytes of dynamic shared memory."""

    def allow_wide_clusters(self, function: FunctionHandle) -> None:
        """Let launches of the function use clusters of more than 8 blocks."""

    def active_blocks(self, ordinal: int, function: FunctionHandle, threads: int, shared: int) -> int:
        """Blocks of a launch that are resident on one multiprocessor at a time."""

    def active_clusters(self, ordinal: int, function: FunctionHandle, shape: LaunchShape) -> int:
        """Clusters of a launch that are resident on the device at a time."""

    def bind_launch(self, ordinal: int, function: FunctionHandle, shape: LaunchShape, stream: int, parts: LaunchParts) -> LaunchCall:
        """A call that enqueues this launch; it reports failure by its result and never raises for one."""

    def launch_failed(self, ordinal: int, result: Any, stream: int, retry: Callable[[], Any], kernel: str) -> None:
        """Deal with a launch that failed: where only the thread's context was wrong, `retry` under the right one; raise otherwise."""

    def pointer_device(self, address: int) -> int | None:
        """Ordinal of the device that an address belongs to; None for an address that the driver does not know."""

    def allocation(self, address: int) -> tuple[int, int] | None:
        """(first address, bytes) of the allocation that an address lies in; None where the driver does not know."""

    def allocate(self, ordinal: int, size: int, stream: int | None, pool: PoolHandle | None = None) -> int:
        """Device memory, in stream order where a stream is given; then out of a pool, tilec's own for the device by default."""

    def free(self, ordinal: int, address: int, stream: int | None) -> None:
        """Give memory back, in stream order where a stream is given."""

    def copy_in(self, ordinal: int, address: int, source: int, size: int, stream: int) -> None:
        """Copy host memory (address `source`) to the device and wait for it."""

    def copy_out(self, ordinal: int, target: int, address: int, size: int, stream: int) -> None:
        """Copy device memory to host memory (address `target`) and wait for it."""

    def fill(self, ordinal: int, address: int, byte: int, size: int, stream: int) -> None:
        """Set every byte of device memory, in stream order."""

    def copy_async(self, ordinal: int, target: int, source: int, size: int, stream: int, kind: CopyKind) -> None:
        """Copy in stream order. Host memory must stay as it is until the copy is done; only pinned memory is copied without waiting."""

    def copy_box(self, ordinal: int, target: int, source: int, box: CopyBox, stream: int, kind: CopyKind) -> None:
        """Copy rows of bytes that lie apart, in stream order. Host memory must stay as it is until the copy is done."""

    def allocate_pinned(self, ordinal: int, size: int) -> int:
        """Host memory that the device copies from and to by itself."""

    def free_pinned(self, ordinal: int, address: int) -> None:
        """Give pinned memory back; nothing may use it any more."""

    def memory_info(self, ordinal: int) -> tuple[int, int]:
        """(free, total) bytes of the device."""

    def default_pool(self, ordinal: int) -> PoolHandle:
        """The pool that allocations in stream order come from unless they name another: of tilec's own, one for each device."""

    def create_pool(self, ordinal: int, release_threshold: int, max_size: int = 0) -> PoolHandle:
        """A pool of its own; `max_size` bounds what it takes from the device, 0 does not."""

    def destroy_pool(self, ordinal: int, pool: PoolHandle) -> None:
        """Give a pool back; its memory goes when the last of it is freed."""

    def set_release_threshold(self, ordinal: int, pool: PoolHandle, size: int) -> None:
        """Set how many unused bytes a pool keeps."""

    def pool_stats(self, ordinal: int, pool: PoolHandle) -> PoolStats:
        """What a pool holds."""

    def trim_pool(self, ordinal: int, pool: PoolHandle, keep: int) -> None:
        """Give unused memory back to the device until the pool has no more than `keep` bytes, where it can."""

    def create_stream(self, ordinal: int) -> int:
        """A stream that does not wait for the legacy default stream."""

    def destroy_stream(self, ordinal: int, stream: int) -> None:
        """Give a stream back; work on it still finishes."""

    def synchronize(self, ordinal: int, stream: int) -> None:
        """Wait for everything on a stream."""

    def synchronize_device(self, ordinal: int) -> None:
        """Wait for everything on all streams of a device."""

    def create_event(self, ordinal: int, *, timed: bool = True) -> int:
        """A mark that can be set in streams; one that only orders them, without times, costs less."""

    def destroy_event(self, ordinal: int, event: int) -> None:
        """Give an event back; streams that wait for it still do."""

    def position(self, ordinal: int, stream: int) -> int:
        """Where in a stream's work the next one goes, for `record_event`; 0 from a driver that does not count."""

    def record_event(self, ordinal: int, event: int, stream: int, since: int | None = None) -> None:
        """Set the mark behind what a stream has to do; it was elsewhere before. `event_failure` tells of the work from `since` on."""

    def wait_event(self, ordinal: int, stream: int, event: int, *, anyway: bool = False) -> None:
        """Let what a stream is given from now on wait until the mark is reached; one that was never set is.

        Where the work before the mark fails, so does the stream, on drivers that tell works apart; unless it goes on `anyway`.
        """

    def event_reached(self, ordinal: int, event: int) -> bool:
        """Whether everything before the mark is done."""

    def event_failure(self, ordinal: int, event: int) -> BaseException | None:
        """What the work before a mark came to that is reached, where the driver tells works apart; else waiting raises it.

        Who asks takes care of it: the stream goes on.
        """

    def synchronize_event(self, ordinal: int, event: int) -> None:
        """Wait until the mark is reached."""

    def elapsed(self, ordinal: int, start: int, end: int) -> float:
        """Seconds between two marks that were reached."""

    def begin_capture(self, ordinal: int, stream: int) -> None:
        """Let what a stream is given become nodes of a graph instead of being done. The stream must not be a default one."""

    def end_capture(self, ordinal: int, stream: int) -> GraphHandle:
        """The graph of what the stream was given; it does its work itself again, also where this raises."""

    def capturing(self, ordinal: int, stream: int) -> bool:
        """Whether a stream is captured, by whomever. Its work must not be waited for, nor may it wait for work outside of the capture."""

    def outside_captures(self, ordinal: int) -> AbstractContextManager[None]:
        """Let this thread wait for streams that are not captured, free there and load images, although somebody captures another one."""

    def graph_nodes(self, graph: GraphHandle) -> int:
        """How many works a graph has."""

    def instantiate_graph(self, ordinal: int, graph: GraphHandle) -> ExecutableHandle:
        """Make a graph ready to be launched; it need not stay."""

    def update_graph(self, ordinal: int, executable: ExecutableHandle, graph: GraphHandle) -> bool:
        """Let later launches of an executable do what another graph says; whether the two are alike enough, else nothing changes."""

    def upload_graph(self, ordinal: int, executable: ExecutableHandle, stream: int) -> None:
        """Bring it to the device, in stream order, so that its first launch need not."""

    def launch_graph(self, ordinal: int, executable: ExecutableHandle, stream: int) -> None:
        """Do what the graph says, in stream order, and behind all launches of the executable before."""

    def destroy_graph(self, ordinal: int, graph: GraphHandle) -> None:
        """Give a graph back; what was made of it stays."""

    def destroy_executable(self, ordinal: int, executable: ExecutableHandle) -> None:
        """Give it back; launches of it still finish. Does not wait."""
