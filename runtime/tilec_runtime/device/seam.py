"""What tilec asks of a driver of devices: the protocol that `_driver` fulfils for CUDA and that
tests fake. Its values are in `seam_types`: a launch needs no more.
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
    """A driver as tilec uses it. Every failure is a `DriverError` (or `NoDeviceError`) with cause
    and fix.
    """

    @property
    def holds_arguments(self) -> bool:
        """Whether launches keep their arguments alive until they are done; then they get them as
        they are called.
        """

    def version(self) -> Version:
        """CUDA release that the driver serves."""

    def device_count(self) -> int:
        """Number of visible devices."""

    def device(self, ordinal: int) -> DeviceInfo:
        """Facts about one device."""

    def adopt(self, ordinal: int) -> None:
        """Give a thread that has no context that of device 0, for good, if this is the device; for
        another one, do nothing.
        """

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

    def active_blocks(
        self, ordinal: int, function: FunctionHandle, threads: int, shared: int
    ) -> int:
        """Blocks of a launch that are resident on one multiprocessor at a time."""

    def active_clusters(self, ordinal: int, function: FunctionHandle, shape: LaunchShape) -> int:
        """Clusters of a launch that are resident on the device at a time."""

    def widest_cluster(self, ordinal: int, function: FunctionHandle, shape: LaunchShape) -> int:
        """The most blocks that a cluster of such a launch can have, whatever cluster it says."""

    def tensor_map(
        self,
        ordinal: int,
        wanted: TensorMap,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> bytes:
        """The bytes of a tensor map of these extents, with strides in bytes: all but the last are
        multiples of 16.
        """

    def bind_launch(
        self,
        ordinal: int,
        function: FunctionHandle,
        shape: LaunchShape,
        stream: int,
        parts: LaunchParts,
    ) -> LaunchCall:
        """A call that enqueues this launch; it reports failure by its result and never raises for
        one.
        """

    def launch_target(self, ordinal: int) -> int | Callable[..., Any] | None:
        """What the launch core launches through: the number of the device's context for the CUDA
        driver, a callable of a double's (see `Table`), or None where all launches are bound.
        """

    def launch_failed(
        self, ordinal: int, result: Any, stream: int, retry: Callable[[], Any], kernel: str
    ) -> None:
        """Deal with a launch that failed: where only the thread's context was wrong, `retry` under
        the right one; raise otherwise.
        """

    def pointer_device(self, address: int) -> int | None:
        """Ordinal of the device that an address belongs to; None for an address that the driver
        does not know.
        """

    def allocation(self, address: int) -> tuple[int, int] | None:
        """(first address, bytes) of the allocation that an address lies in; None where the driver
        does not know.
        """

    def allocate(
        self, ordinal: int, size: int, stream: int | None, pool: PoolHandle | None = None
    ) -> int:
        """Device memory, in stream order where a stream is given; then out of a pool, tilec's own
        for the device by default.
        """

    def free(self, ordinal: int, address: int, stream: int | None) -> None:
        """Give memory back, in stream order where a stream is given."""

    def copy_in(self, ordinal: int, address: int, source: int, size: int, stream: int) -> None:
        """Copy host memory (address `source`) to the device and wait for it."""

    def copy_out(self, ordinal: int, target: int, address: int, size: int, stream: int) -> None:
        """Copy device memory to host memory (address `target`) and wait for it."""

    def fill(self, ordinal: int, address: int, byte: int, size: int, stream: int) -> None:
        """Set every byte of device memory, in stream order."""

    def copy_async(
        self, ordinal: int, target: int, source: int, size: int, stream: int, kind: CopyKind
    ) -> None:
        """Copy in stream order. Host memory must stay as it is until the copy is done; only pinned
        memory is copied without waiting.
        """

    def copy_box(
        self, ordinal: int, target: int, source: int, box: CopyBox, stream: int, kind: CopyKind
    ) -> None:
        """Copy rows of bytes that lie apart, in stream order. Host memory must stay as it is until
        the copy is done.
        """

    def allocate_pinned(self, ordinal: int, size: int) -> int:
        """Host memory that the device copies from and to by itself."""

    def free_pinned(self, ordinal: int, address: int) -> None:
        """Give pinned memory back; nothing may use it any more."""

    def memory_info(self, ordinal: int) -> tuple[int, int]:
        """(free, total) bytes of the device."""

    def default_pool(self, ordinal: int) -> PoolHandle:
        """The pool that allocations in stream order come from unless they name another: of tilec's
        own, one for each device.
        """

    def create_pool(self, ordinal: int, release_threshold: int, max_size: int = 0) -> PoolHandle:
        """A pool of its own; `max_size` bounds what it takes from the device, 0 does not."""

    def destroy_pool(self, ordinal: int, pool: PoolHandle) -> None:
        """Give a pool back; its memory goes when the last of it is freed."""

    def set_release_threshold(self, ordinal: int, pool: PoolHandle, size: int) -> None:
        """Set how many unused bytes a pool keeps."""

    def pool_stats(self, ordinal: int, pool: PoolHandle) -> PoolStats:
        """What a pool holds."""

    def trim_pool(self, ordinal: int, pool: PoolHandle, keep: int) -> None:
        """Give unused memory back to the device until the pool has no more than `keep` bytes, where
        it can.
        """

    def create_stream(self, ordinal: int) -> int:
        """A stream that does not wait for the legacy default stream."""

    def destroy_stream(self, ordinal: int, stream: int) -> None:
        """Give a stream back; work on it still finishes."""

    def synchronize(self, ordinal: int, stream: int) -> None:
        """Wait for everything on a stream."""

    def synchronize_device(self, ordinal: int) -> None:
        """Wait for everything on all streams of a device."""

    def create_event(self, ordinal: int, *, timed: bool = True, blocking: bool = False) -> int:
        """A mark that can be set in streams; one without times costs less. Waits for a `blocking`
        one sleep, and do not spin.
        """

    def destroy_event(self, ordinal: int, event: int) -> None:
        """Give an event back; streams that wait for it still do."""

    def position(self, ordinal: int, stream: int) -> int:
        """Where in a stream's work the next one goes, for `record_event`; 0 from a driver that does
        not count.
        """

    def record_event(self, ordinal: int, event: int, stream: int, since: int | None = None) -> None:
        """Set the mark behind what a stream has to do; it was elsewhere before. `event_failure`
        tells of the work from `since` on.
        """

    def wait_event(self, ordinal: int, stream: int, event: int, *, anyway: bool = False) -> None:
        """Let what a stream is given from now on wait until the mark is reached; one that was never
        set is.

        Where the work before the mark fails, so does the stream, on drivers that tell works apart;
        unless it goes on `anyway`.
        """

    def event_reached(self, ordinal: int, event: int) -> bool:
        """Whether everything before the mark is done."""

    def event_failure(self, ordinal: int, event: int) -> BaseException | None:
        """What the work before a mark came to that is reached, where the driver tells works apart;
        else waiting raises it.

        Who asks takes care of it: the stream goes on.
        """

    def synchronize_event(self, ordinal: int, event: int) -> None:
        """Wait until the mark is reached."""

    def elapsed(self, ordinal: int, start: int, end: int) -> float:
        """Seconds between two marks that were reached."""

    def begin_capture(self, ordinal: int, stream: int) -> None:
        """Let what a stream is given become nodes of a graph instead of being done. The stream must
        not be a default one.
        """

    def end_capture(self, ordinal: int, stream: int) -> GraphHandle:
        """The graph of what the stream was given; it does its work itself again, also where this
        raises.
        """

    def capturing(self, ordinal: int, stream: int) -> bool:
        """Whether a stream is captured, by whomever. Its work must not be waited for, nor may it
        wait for work outside of the capture.
        """

    def outside_captures(self, ordinal: int) -> AbstractContextManager[None]:
        """Let this thread wait for streams that are not captured, free there and load images,
        although another one is captured.
        """

    def graph_nodes(self, graph: GraphHandle) -> int:
        """How many works a graph has."""

    def instantiate_graph(self, ordinal: int, graph: GraphHandle) -> ExecutableHandle:
        """Make a graph ready to be launched; it need not stay."""

    def upload_graph(self, ordinal: int, executable: ExecutableHandle, stream: int) -> None:
        """Bring it to the device, in stream order, so that its first launch need not."""

    def launch_graph(self, ordinal: int, executable: ExecutableHandle, stream: int) -> None:
        """Do what the graph says, in stream order, and behind all launches of the executable
        before. A stream that is captured is refused, and its capture goes on.
        """

    def destroy_graph(self, ordinal: int, graph: GraphHandle) -> None:
        """Give a graph back; what was made of it stays."""

    def destroy_executable(self, ordinal: int, executable: ExecutableHandle) -> None:
        """Give it back; launches of it still finish. Does not wait."""
