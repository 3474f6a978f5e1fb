"""The interface to a driver, which CUDA, the cpu device and tests implement."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from tilec_runtime.device.layout import TensorFacts, byte_range
from tilec_runtime.model.arch import Version
from tilec_runtime.values import value_class

if TYPE_CHECKING:
    from tilec_runtime.model.tensormap import TensorMap

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


class DeviceDriver(Protocol):
    """A driver of devices.

    Every failure is a `DriverError` (or `NoDeviceError`) with cause and fix.
    """

    @property
    def holds_arguments(self) -> bool:
        """Whether launches keep their arguments alive until they are done.

        If so, a launch passes them along with each call.
        """

    def version(self) -> Version:
        """Return the CUDA release that the driver supports."""

    def device_count(self) -> int:
        """Return the number of visible devices."""

    def device(self, ordinal: int) -> DeviceInfo:
        """Return facts about one device."""

    def adopt(self, ordinal: int) -> None:
        """Set the context of device 0 in a thread that has none, permanently.

        Do nothing for another device.
        """

    def load_module(self, ordinal: int, data: bytes) -> ModuleHandle:
        """Load an image into the device's primary context."""

    def function(self, module: ModuleHandle, symbol: str) -> FunctionHandle:
        """Look up an entry point."""

    def function_facts(self, function: FunctionHandle) -> FunctionFacts:
        """Return the resources of an entry point."""

    def allow_shared(self, function: FunctionHandle, size: int) -> None:
        """Let launches of the function use up to `size` bytes of dynamic shared memory."""

    def allow_wide_clusters(self, function: FunctionHandle) -> None:
        """Let launches of the function use clusters of more than 8 blocks."""

    def active_blocks(
        self, ordinal: int, function: FunctionHandle, threads: int, shared: int
    ) -> int:
        """Count the blocks of a launch that are resident on one multiprocessor at once."""

    def active_clusters(self, ordinal: int, function: FunctionHandle, shape: LaunchShape) -> int:
        """Count the clusters of a launch that are resident on the device at once."""

    def widest_cluster(self, ordinal: int, function: FunctionHandle, shape: LaunchShape) -> int:
        """Return the most blocks per cluster for a launch; ignore `shape.cluster`."""

    def tensor_map(
        self,
        ordinal: int,
        wanted: TensorMap,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> bytes:
        """Return the bytes of a tensor map.

        Args:
            ordinal: the device.
            wanted: the map's box, element type and swizzle.
            address: address of the tensor.
            shape: extents of the tensor.
            strides: strides in bytes; all but the last are multiples of 16.
        """

    def bind_launch(
        self,
        ordinal: int,
        function: FunctionHandle,
        shape: LaunchShape,
        stream: int,
        parts: LaunchParts,
    ) -> LaunchCall:
        """Return a call that enqueues this launch.

        The call reports a failure by its result and does not raise.
        """

    def launch_target(self, ordinal: int) -> int | Callable[..., Any] | None:
        """Return the target of the launch core's launches, or None for no target.

        The target is the handle of the device's context for the CUDA driver, or a callable of a
        test double (see `Table`).
        """

    def launch_failed(
        self, ordinal: int, result: Any, stream: int, retry: Callable[[], Any], kernel: str
    ) -> None:
        """Handle a launch that failed.

        If only the thread's context was wrong, `retry` in the right one; otherwise raise.
        """

    def pointer_device(self, address: int) -> int | None:
        """Return the ordinal of an address's device, or None if the address is unknown."""

    def allocation(self, address: int) -> tuple[int, int] | None:
        """Return (first address, bytes) of an address's allocation, or None."""

    def allocate(
        self, ordinal: int, size: int, stream: int | None, pool: PoolHandle | None = None
    ) -> int:
        """Allocate device memory; with a stream, in stream order out of a pool.

        The pool is by default tilec's own for the device.
        """

    def free(self, ordinal: int, address: int, stream: int | None) -> None:
        """Free device memory; with a stream, in stream order."""

    def copy_in(self, ordinal: int, address: int, source: int, size: int, stream: int) -> None:
        """Copy host memory (address `source`) to the device and wait for it."""

    def copy_out(self, ordinal: int, target: int, address: int, size: int, stream: int) -> None:
        """Copy device memory to host memory (address `target`) and wait for it."""

    def fill(self, ordinal: int, address: int, byte: int, size: int, stream: int) -> None:
        """Set every byte of device memory, in stream order."""

    def copy_async(
        self, ordinal: int, target: int, source: int, size: int, stream: int, kind: CopyKind
    ) -> None:
        """Copy in stream order.

        Host memory must not change until the copy is done. Copies of host memory that is not pinned
        may block the host.
        """

    def copy_box(
        self, ordinal: int, target: int, source: int, box: CopyBox, stream: int, kind: CopyKind
    ) -> None:
        """Copy separated rows of bytes in stream order.

        Host memory must not change until the copy is done.
        """

    def allocate_pinned(self, ordinal: int, size: int) -> int:
        """Allocate pinned host memory, which the device copies without the host."""

    def free_pinned(self, ordinal: int, address: int) -> None:
        """Free pinned memory; nothing may use it any more."""

    def memory_info(self, ordinal: int) -> tuple[int, int]:
        """Return (free, total) bytes of the device."""

    def default_pool(self, ordinal: int) -> PoolHandle:
        """Return the default pool of allocations: tilec's own, one per device."""

    def create_pool(self, ordinal: int, release_threshold: int, max_size: int = 0) -> PoolHandle:
        """Create a pool; `max_size` bounds its memory, and 0 does not."""

    def destroy_pool(self, ordinal: int, pool: PoolHandle) -> None:
        """Destroy a pool once all its memory is freed."""

    def set_release_threshold(self, ordinal: int, pool: PoolHandle, size: int) -> None:
        """Set how many unused bytes a pool keeps."""

    def pool_stats(self, ordinal: int, pool: PoolHandle) -> PoolStats:
        """Return the memory that a pool holds."""

    def trim_pool(self, ordinal: int, pool: PoolHandle, keep: int) -> None:
        """Return unused memory to the device down to `keep` bytes, if possible."""

    def create_stream(self, ordinal: int) -> int:
        """Create a stream that does not wait for the legacy default stream."""

    def destroy_stream(self, ordinal: int, stream: int) -> None:
        """Destroy a stream; work on it still finishes."""

    def synchronize(self, ordinal: int, stream: int) -> None:
        """Wait for all work on a stream."""

    def synchronize_device(self, ordinal: int) -> None:
        """Wait for all work on all streams of a device."""

    def create_event(self, ordinal: int, *, timed: bool = True, blocking: bool = False) -> int:
        """Create an event; one that is not `timed` costs less.

        Threads that wait for a `blocking` event sleep; for others they spin.
        """

    def destroy_event(self, ordinal: int, event: int) -> None:
        """Destroy an event; streams that wait for it still do."""

    def position(self, ordinal: int, stream: int) -> int:
        """Return the position of a stream's next work, for `record_event`.

        A driver that does not count returns 0.
        """

    def record_event(self, ordinal: int, event: int, stream: int, since: int | None = None) -> None:
        """Record an event behind all work enqueued on a stream so far.

        Recording moves an event. `event_failure` reports the work from position `since` on.
        """

    def wait_event(self, ordinal: int, stream: int, event: int, *, anyway: bool = False) -> None:
        """Make later work on a stream wait for an event.

        An event never recorded counts as reached. If the work before the event fails, so does the
        stream, on drivers that attribute failures; with `anyway`, the stream goes on.
        """

    def event_reached(self, ordinal: int, event: int) -> bool:
        """Whether all work before the event is done."""

    def event_failure(self, ordinal: int, event: int) -> BaseException | None:
        """Return the error of the work before a reached event, or None.

        Only drivers that attribute failures return one; with others, waiting raises it. The caller
        becomes responsible for the error: the stream goes on.
        """

    def synchronize_event(self, ordinal: int, event: int) -> None:
        """Wait until an event is reached."""

    def elapsed(self, ordinal: int, start: int, end: int) -> float:
        """Return the seconds between two reached events."""

    def begin_capture(self, ordinal: int, stream: int) -> None:
        """Begin a capture: work on the stream becomes nodes of a graph instead of running.

        The stream must not be a default stream.
        """

    def end_capture(self, ordinal: int, stream: int) -> GraphHandle:
        """End a capture and return its graph.

        The stream runs its work again, even if this raises.
        """

    def capturing(self, ordinal: int, stream: int) -> bool:
        """Whether any library captures a stream.

        During a capture, nothing may wait for the stream, and the stream may not wait for work
        outside of the capture.
        """

    def outside_captures(self, ordinal: int) -> AbstractContextManager[None]:
        """Let this thread wait for other streams, free and load images during a capture."""

    def graph_nodes(self, graph: GraphHandle) -> int:
        """Return the number of nodes of a graph."""

    def instantiate_graph(self, ordinal: int, graph: GraphHandle) -> ExecutableHandle:
        """Return an executable of a graph; the graph may be destroyed afterwards."""

    def upload_graph(self, ordinal: int, executable: ExecutableHandle, stream: int) -> None:
        """Upload an executable in stream order, so that its first launch need not."""

    def launch_graph(self, ordinal: int, executable: ExecutableHandle, stream: int) -> None:
        """Launch an executable in stream order, and after all its earlier launches.

        A stream that is captured is refused, and its capture goes on.
        """

    def destroy_graph(self, ordinal: int, graph: GraphHandle) -> None:
        """Destroy a graph; its executables stay valid."""

    def destroy_executable(self, ordinal: int, executable: ExecutableHandle) -> None:
        """Destroy an executable without waiting; its launches still finish."""
