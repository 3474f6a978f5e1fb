"""The interface to a driver, which CUDA, the cpu device and tests implement.

The values that cross it are in `seam_types`; a launch needs only those.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from tilec_runtime.device.seam_types import (
    KEEP_ALL,
    CopyBox,
    CopyKind,
    DeviceInfo,
    Dim3,
    ExecutableHandle,
    FunctionFacts,
    FunctionHandle,
    GraphHandle,
    LaunchCall,
    LaunchParts,
    LaunchShape,
    ModuleHandle,
    PoolHandle,
    PoolStats,
    TensorPart,
)
from tilec_runtime.model.arch import Version

if TYPE_CHECKING:
    from tilec_runtime.model.tensormap import TensorMap

__all__ = [
    "KEEP_ALL",
    "CopyBox",
    "CopyKind",
    "DeviceDriver",
    "DeviceInfo",
    "Dim3",
    "ExecutableHandle",
    "FunctionFacts",
    "FunctionHandle",
    "GraphHandle",
    "LaunchCall",
    "LaunchParts",
    "LaunchShape",
    "ModuleHandle",
    "PoolHandle",
    "PoolStats",
    "TensorPart",
]


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
