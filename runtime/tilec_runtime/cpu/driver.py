"""The cpu device's driver: host memory, queues as streams, a Tile IR interpreter."""

# ruff: noqa: ARG002 - every driver has the parameters that a GPU's driver needs
from __future__ import annotations

import atexit
import ctypes
import functools
import itertools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilec_runtime.cpu.graphs import Captures, Executable, Graph, GraphDouble
from tilec_runtime.cpu.launch import CpuOptions, QueuedCall, out_of_memory
from tilec_runtime.cpu.memory import Allocations, Pool, rows_of
from tilec_runtime.cpu.queue import Queue, QueueEvent, Work, end_all
from tilec_runtime.cpu.tileir.ir import Module
from tilec_runtime.cpu.tileir.memory import MemoryRegion
from tilec_runtime.cpu.tileir.program import Program, memory_of_variables, prepare
from tilec_runtime.cpu.tileir.read import NEWEST, OLDEST, read_module
from tilec_runtime.device.layout import ON_CPU, ON_GPU
from tilec_runtime.device.seam import (
    CopyBox,
    CopyKind,
    DeviceInfo,
    FunctionFacts,
    LaunchCall,
    LaunchParts,
    LaunchShape,
    PoolStats,
)
from tilec_runtime.errors import DriverError, InternalError, NoDeviceError, SchedulingError
from tilec_runtime.forks import ForkLock, Once, renew_in_children
from tilec_runtime.model.arch import Version
from tilec_runtime.model.tensormap import TensorMap
from tilec_runtime.tensors.host import host_memory

# Tile kernels have blocks of 1 by 1 by 1 and no shared memory, so the limits of a GPU do not apply.
CPU = DeviceInfo(
    ordinal=ON_CPU,
    name="CPU",
    cc=(0, 0),
    driver=(0, 0),
    cooperative=False,
    cluster=True,
    interprets=(OLDEST, NEWEST),
)
# Kinds of copies whose target, and whose source, is memory of the device.
_INTO, _OUT_OF = (CopyKind.TO_DEVICE, CopyKind.ON_DEVICE), (CopyKind.TO_HOST, CopyKind.ON_DEVICE)
_FACTS = FunctionFacts(max_threads=1, static_shared=0, registers=0)
# A module of Tile IR, and the memory of its variables, which lives as long as the module.
LoadedModule = tuple[Module, tuple[MemoryRegion, ...]]
# Seconds to wait at the end of the process for a launch to stop.
_PATIENCE = 2.0


@Once
def cpu_driver() -> CpuDriver:
    """The process's cpu device."""
    return CpuDriver()


class CpuDriver(GraphDouble):
    """A `DeviceDriver` without a GPU: one device with the host's memory.

    The launches of a stream run in order on the stream's thread; streams run concurrently. The next
    call that synchronizes the stream or enqueues on it raises the error of a failed launch.
    """

    holds_arguments = True

    def __init__(self, options: CpuOptions | None = None) -> None:
        """Create a device; None stands for the default options."""
        super().__init__()
        self._options = options or CpuOptions()
        self._allocations = Allocations()
        self._pool, self._pinned = Pool(self._allocations), Pool(self._allocations)
        self._owners: dict[int, tuple[Pool, int]] = {}  # pool and size of each allocation
        self._lock = ForkLock()
        self._handles = itertools.count(0x1000, 0x10)
        self._queues: dict[int, Queue] = {0: self._new_queue(0)}
        self._recorded: dict[int, QueueEvent | None] = {}
        renew_in_children(self)

    # The device

    def version(self) -> Version:
        """Return (0, 0): the device supports no CUDA release."""
        return CPU.driver

    def device_count(self) -> int:
        """Return 1."""
        return 1

    def device(self, ordinal: int) -> DeviceInfo:
        """Return the properties of the cpu device."""
        if ordinal != ON_CPU:
            raise NoDeviceError(
                f"there is no device {ordinal} here: this is the cpu device", fix='name it "cpu"'
            )
        return CPU

    def adopt(self, ordinal: int) -> None:
        """Do nothing: threads need no context."""

    # Images

    def load_module(self, ordinal: int, data: bytes) -> LoadedModule:
        """Read Tile IR and allocate its variables."""
        module = read_module(data)
        return module, memory_of_variables(module)

    def function(self, module: LoadedModule, symbol: str) -> Program:
        """Prepare an entry point.

        The module's variables keep their values between launches.
        """
        tile_ir, variables = module
        return prepare(tile_ir, symbol, variables)

    def function_facts(self, function: Program) -> FunctionFacts:
        """Return the same facts for every function: no registers, no shared memory."""
        return _FACTS

    def allow_shared(self, function: Program, size: int) -> None:
        """Do nothing: there is no shared memory to opt in to."""

    def allow_wide_clusters(self, function: Program) -> None:
        """Do nothing: clusters have no effect."""

    def tensor_map(
        self,
        ordinal: int,
        wanted: TensorMap,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> bytes:
        """Raise: Tile IR never uses tensor maps."""
        raise InternalError("a launch on the cpu device takes a tensor map")

    def active_blocks(self, ordinal: int, function: Program, threads: int, shared: int) -> int:
        """Return 1; only cooperative launches need it, which this device does not support."""
        return 1

    def active_clusters(self, ordinal: int, function: Program, shape: LaunchShape) -> int:
        """Return 1: clusters have no effect, and every launch fits."""
        return 1

    def widest_cluster(self, ordinal: int, function: Program, shape: LaunchShape) -> int:
        """Return the requested size: clusters have no effect."""
        return math.prod(shape.cluster)

    # Launches

    def bind_launch(
        self, ordinal: int, function: Program, shape: LaunchShape, stream: int, parts: LaunchParts
    ) -> LaunchCall:
        """Return a call that enqueues launches; it returns an error instead of raising it."""
        self._queue(stream, parts.kernel)
        put = functools.partial(self._put, stream, f"launch of {parts.kernel}", kernel=parts.kernel)
        return QueuedCall(function, shape.grid, parts, self._options, self._allocations, put)

    def launch_target(self, _ordinal: int) -> None:
        """Return None: `bind_launch` binds every launch, and keeps its arguments alive."""

    def launch_failed(
        self, ordinal: int, result: Any, stream: int, retry: Callable[[], Any], kernel: str
    ) -> None:
        """Raise the error of a launch, or of earlier work on its stream."""
        raise result

    # Memory

    def pointer_device(self, address: int) -> int | None:
        """Return whether an address belongs to this device or to a GPU.

        It serves tensors whose protocol only says that a CUDA device can access them.
        """
        return ON_GPU if self._allocations.holding(address) is None else ON_CPU

    def allocation(self, address: int) -> tuple[int, int] | None:
        """Return (start, size in bytes) of the allocation of an address, or None."""
        holding = self._allocations.holding(address)
        return None if holding is None else (holding[0], holding[1].size)

    def allocate(
        self, ordinal: int, size: int, stream: int | None, pool: Pool | None = None
    ) -> int:
        """Allocate uninitialized host memory with the alignment of GPU memory."""
        self._captures.refuse(stream, "cuMemAllocAsync")
        owner = pool or self._pool
        try:
            address = owner.allocate(size)
        except (MemoryError, ValueError) as error:
            raise out_of_memory(f"{size} bytes cannot be allocated on the cpu device") from error
        self._owners[address] = (owner, size)
        return address

    def free(self, ordinal: int, address: int, stream: int | None) -> None:
        """Free memory in stream order; queued launches keep the memory that they use."""
        self._captures.refuse(stream, "cuMemFreeAsync")
        queue = None if stream is None else self._queues.get(stream)
        if (
            queue is None or queue.idle
        ):  # needs no thread, which cannot be started at the end of the process
            self._free(address)
        else:
            queue.put(lambda _: self._free(address), always=True)

    def _free(self, address: int) -> None:
        owner = self._owners.pop(address, None)
        if owner is None:
            raise _invalid(f"{address:#x} is no allocation of the cpu device, or was freed before")
        owner[0].free(address, owner[1])

    def allocate_pinned(self, ordinal: int, size: int) -> int:
        """Allocate host memory; the device can access all of it."""
        return self.allocate(ordinal, size, None, self._pinned)

    def free_pinned(self, ordinal: int, address: int) -> None:
        """Free pinned memory at once."""
        self._free(address)

    def memory_info(self, ordinal: int) -> tuple[int, int]:
        """Return (free, total) memory of the machine in bytes."""
        page = os.sysconf("SC_PAGE_SIZE")
        return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page

    def default_pool(self, ordinal: int) -> Pool:
        """Return the pool of allocations without a pool of their own."""
        return self._pool

    def create_pool(self, ordinal: int, release_threshold: int, max_size: int = 0) -> Pool:
        """Create a pool."""
        self.device(ordinal)
        return Pool(self._allocations, release_threshold, max_size)

    def destroy_pool(self, ordinal: int, pool: Pool) -> None:
        """Destroy a pool; its allocations stay valid until they are freed."""
        pool.set_threshold(0)
        pool.trim(0)

    def set_release_threshold(self, ordinal: int, pool: Pool, size: int) -> None:
        """Set the number of unused bytes that a pool keeps."""
        pool.set_threshold(size)

    def pool_stats(self, ordinal: int, pool: Pool) -> PoolStats:
        """Return the statistics of a pool."""
        return pool.stats

    def trim_pool(self, ordinal: int, pool: Pool, keep: int) -> None:
        """Free unused memory until the pool has at most `keep` bytes."""
        pool.trim(keep)

    # Copies

    def copy_async(
        self, ordinal: int, target: int, source: int, size: int, stream: int, kind: CopyKind
    ) -> None:
        """Copy in stream order. Host memory must not change until the copy is done."""
        into = self._bytes(target, size, own=kind in _INTO)
        out_of = self._bytes(source, size, own=kind in _OUT_OF)
        self._put(stream, f"copy {kind.value}", lambda _: np.copyto(into, out_of))

    def copy_box(
        self, ordinal: int, target: int, source: int, box: CopyBox, stream: int, kind: CopyKind
    ) -> None:
        """Copy strided rows in stream order.

        Host memory must not change until the copy is done.
        """
        into = rows_of(self._bytes(target, box.target_reach, own=kind in _INTO), box, target=True)
        out_of = rows_of(
            self._bytes(source, box.source_reach, own=kind in _OUT_OF), box, target=False
        )
        self._put(stream, f"copy of rows {kind.value}", lambda _: np.copyto(into, out_of))

    def copy_in(self, ordinal: int, address: int, source: int, size: int, stream: int) -> None:
        """Copy host memory into an allocation in stream order, and wait for the copy."""
        self._captures.refuse(stream, "cuStreamSynchronize")
        queue, target = self._queue(stream), self._bytes(address, size)
        queue.wait()
        ctypes.memmove(target.ctypes.data, source, size)

    def copy_out(self, ordinal: int, target: int, address: int, size: int, stream: int) -> None:
        """Copy an allocation to host memory in stream order, and wait for the copy."""
        self._captures.refuse(stream, "cuStreamSynchronize")
        queue, source = self._queue(stream), self._bytes(address, size)
        queue.wait()
        ctypes.memmove(target, source.ctypes.data, size)

    def fill(self, ordinal: int, address: int, byte: int, size: int, stream: int) -> None:
        """Set every byte of a memory range in stream order."""
        target = self._bytes(address, size)
        self._put(stream, "fill", lambda _: target.fill(byte))

    def call(
        self,
        stream: int,
        what: str,
        function: Callable[..., None],
        memory: Sequence[tuple[int, int]],
    ) -> None:
        """Run a host function in stream order.

        It gets the bytes of each (address, size), in the device's memory or in other host memory.
        """
        parts = [self._bytes(*span, own=False) for span in memory]
        self._put(stream, what, lambda _: function(*parts))

    def _bytes(self, address: int, size: int, *, own: bool = True) -> Any:
        """Return memory of the device, or without `own` also other host memory.

        The result keeps an allocation alive. Memory that is freed before queued work reads it may
        then have other contents, but it is never another object's memory.
        """
        part = self._allocations.part(address, size)
        if part is not None:
            return part
        if own:
            raise _invalid(
                f"{size} bytes at {address:#x} are not in one allocation of the cpu device"
            )
        return host_memory(address, size)

    # Streams

    def create_stream(self, ordinal: int) -> int:
        """Create a stream that does not synchronize with others."""
        self.device(ordinal)
        with self._lock:
            handle = next(self._handles)
            self._queues[handle] = self._new_queue(handle)
        return handle

    def destroy_stream(self, ordinal: int, stream: int) -> None:
        """Destroy a stream; its work still finishes. Raise its first unreported error."""
        with self._lock:
            queue = self._queues.pop(stream, None)
        if queue is not None:
            queue.retire()
            queue.check()

    def synchronize(self, ordinal: int, stream: int) -> None:
        """Wait for all work on a stream; raise its unreported error."""
        self._captures.refuse(stream, "cuStreamSynchronize")
        self._queue(stream).wait()

    def synchronize_device(self, ordinal: int) -> None:
        """Wait for all streams; raise the first unreported error."""
        self.device(ordinal)
        self._captures.refuse_all("cuCtxSynchronize")
        with self._lock:
            # Work enqueued during the wait is not waited for. If a program enqueues faster than its
            # streams work, each stream's wait would otherwise lengthen the next one.
            ends = [(queue, queue.position) for queue in self._queues.values()]
        for queue, number in ends:
            queue.wait(number)

    # Events

    def create_event(self, ordinal: int, *, timed: bool = True, blocking: bool = False) -> int:
        """Create an event."""
        self.device(ordinal)
        with self._lock:
            handle = next(self._handles)
            self._recorded[handle] = None
        return handle

    def destroy_event(self, ordinal: int, event: int) -> None:
        """Destroy an event; streams that already wait for it go on waiting."""
        self._recorded.pop(event, None)
        self._captures.forget(event)

    def position(self, ordinal: int, stream: int) -> int:
        """Return the number of the work that was enqueued last on a stream."""
        return self._queue(stream).position

    def record_event(self, ordinal: int, event: int, stream: int, since: int | None = None) -> None:
        """Record an event behind the queued work of a stream; replaces an earlier record."""
        self._event(event)
        if not self._captures.record(event, stream):
            self._recorded[event] = QueueEvent(self._queue(stream), since)

    def wait_event(self, ordinal: int, stream: int, event: int, *, anyway: bool = False) -> None:
        """Let later work of a stream wait for an event.

        An unrecorded event counts as reached.
        """
        recorded = self._event(event)
        if (
            not self._captures.wait(stream, event, set_outside=recorded is not None)
            and recorded is not None
        ):
            self._queue(stream).put(recorded.wait if anyway else recorded.follow, always=True)

    def event_reached(self, ordinal: int, event: int) -> bool:
        """Return whether all work before the event is done."""
        self._captures.ask(event, "cuEventQuery")
        recorded = self._event(event)
        return recorded is None or recorded.reached

    def event_failure(self, ordinal: int, event: int) -> BaseException | None:
        """Return the error of the work before a reached event; the caller handles it."""
        recorded = self._event(event)
        return None if recorded is None else recorded.take_error()

    def synchronize_event(self, ordinal: int, event: int) -> None:
        """Wait until an event is reached; errors of the stream stay unreported."""
        self._captures.ask(event, "cuEventSynchronize")
        recorded = self._event(event)
        if recorded is not None:
            recorded.wait(_never)

    def elapsed(self, ordinal: int, start: int, end: int) -> float:
        """Return the seconds between two reached events."""
        times = [
            recorded.time if (recorded := self._event(event)) is not None else None
            for event in (start, end)
        ]
        if times[0] is None or times[1] is None:
            raise SchedulingError(
                "an event was not reached yet, or never recorded",
                fix="record both, and wait for the later one",
            )
        return times[1] - times[0]

    def _event(self, event: int) -> QueueEvent | None:
        if event not in self._recorded:
            raise SchedulingError(f"{event:#x} is no event of the cpu device, or was given back")
        return self._recorded[event]

    def _queue(self, stream: int, kernel: str = "") -> Queue:
        queue = self._queues.get(stream)
        if queue is None:
            message = (
                f"{kernel}{': ' if kernel else ''}stream {stream:#x} is no stream of the cpu device"
            )
            fix = 'pass 0 or a tilec_runtime.Stream("cpu") that is not closed: streams of CUDA order nothing here'
            raise SchedulingError(message, fix=fix, kernel=kernel)
        return queue

    def _put(self, stream: int, kind: str, work: Work, kernel: str = "") -> None:
        """Enqueue work, or add it to the graph if the stream is captured.

        Raises:
            BaseException: the stream is closed, or earlier work on it failed.
        """
        self._queue(stream, kernel).check()
        if not self._captures.add(stream, kind, work):
            self._queue(stream).put(work)

    def _replay(self, executable: Executable, nodes: Graph, stream: int) -> None:
        """Enqueue the nodes of a graph as one item, after its last launch on any stream."""
        queue = self._queue(stream)
        queue.check()
        if executable.last is not None and not executable.last.reached:
            queue.put(executable.last.wait, always=True)

        def work(given_up: Callable[[], bool]) -> None:
            for node in nodes:
                if given_up():
                    return
                node(given_up)

        queue.put(work)
        executable.last = QueueEvent(queue)

    def _new_queue(self, handle: int) -> Queue:
        return Queue(f"stream {handle:#x} of the cpu device")

    def renew(self) -> None:
        """Reset all streams in a forked child, which has none of its parent's threads."""
        self._captures = Captures()
        for queue in self._queues.values():
            queue.forget()
        self._queues = {handle: self._new_queue(handle) for handle in self._queues}
        self._recorded = dict.fromkeys(self._recorded)


def _never() -> bool:
    return False


atexit.register(end_all, _PATIENCE)


def _invalid(message: str) -> DriverError:
    cause = "the memory was freed, or belongs to somebody else"
    return DriverError(
        message,
        result="CUDA_ERROR_INVALID_VALUE",
        code=1,
        cause=cause,
        fix="check that every buffer is alive",
        device=ON_CPU,
    )
