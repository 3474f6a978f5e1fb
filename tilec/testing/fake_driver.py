"""A CUDA driver without a GPU: device memory is host memory, launches are decoded and recorded, and
may run a Python function.
"""

# ruff: noqa: ARG002 - a double has the driver's signatures
from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import itertools
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilec_runtime.cpu.graphs import Executable, Graph, GraphDouble
from tilec_runtime.device.lost import Losses
from tilec_runtime.device.scalars import format_of
from tilec_runtime.device.seam import (
    KEEP_ALL,
    CopyBox,
    CopyKind,
    DeviceInfo,
    Dim3,
    FunctionFacts,
    LaunchCall,
    LaunchParts,
    LaunchShape,
    PoolStats,
)
from tilec_runtime.errors import DriverError, NoDeviceError
from tilec_runtime.model.arch import Version
from tilec_runtime.model.signature import AbiSlot
from tilec_runtime.model.tensormap import TensorMap

H200 = DeviceInfo(
    ordinal=0,
    name="Fake H200",
    cc=(9, 0),
    driver=(13, 0),
    shared_optin=227 * 1024,
    multiprocessors=132,
    cooperative=True,
    cluster=True,
)

_NO_CONTEXT = "CUDA_ERROR_INVALID_CONTEXT"
_PLAIN = FunctionFacts(max_threads=1024, static_shared=0, registers=32)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class FakeKernel:
    """The entry point of a fake image: ABI, resources, and optionally a Python function that a launch
    calls with the unpacked arguments.
    """

    abi: Sequence[AbiSlot] = ()
    facts: FunctionFacts = _PLAIN
    active_blocks: int = 8
    active_clusters: int = 16
    widest_cluster: int = 16
    run: Callable[..., None] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class FakeLaunch:
    """One launch as the driver saw it; `arguments` are unpacked by the kernel's ABI."""

    device: int
    symbol: str
    shape: LaunchShape
    stream: int
    arguments: tuple[Any, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class FakeStep:
    """One call in stream order; `stream` is None for an immediate call. `what`: address or event."""

    call: str
    stream: int | None
    what: int


class FakeDriver(GraphDouble):
    """`DeviceDriver` for tests.

    Attributes:
        launches: every launch, in order.
        loads: (device, image) of every module that was loaded.
        calls: names of the calls that change something, in order.
        steps: what streams order, in order: allocations, frees, copies, fills, events, launches.
        pending: events that are not reached, although they were recorded.
        errors: launches that came from a thread without a context, as a tool that watches the
            driver reports them.
        fail: results to give instead of success, by call name: `{"load_module":
            "CUDA_ERROR_NO_BINARY_FOR_GPU"}`. After one that loses the context, every call on the
            device fails, as on a GPU.
    """

    holds_arguments = False

    def __init__(
        self,
        devices: Sequence[DeviceInfo] = (H200,),
        kernels: Mapping[str, FakeKernel] | None = None,
    ) -> None:
        """Make a driver that serves these devices and knows these kernels by symbol; others take no
        arguments.
        """
        super().__init__()
        self.devices = tuple(devices)
        self.kernels = dict(kernels or {})
        self.launches: list[FakeLaunch] = []
        self.loads: list[tuple[int, bytes]] = []
        self.calls: list[str] = []
        self.steps: list[FakeStep] = []
        self.pending: set[int] = set()
        self._recorded: set[int] = set()
        self.errors: list[str] = []
        self.fail: dict[str, str] = {}
        self.allowed_shared: dict[str, int] = {}
        self._memory: dict[int, tuple[int, Any]] = {}
        self._pools: dict[int, _FakePool] = {0: _FakePool(threshold=KEEP_ALL)}
        self._foreign: dict[int, int] = {}
        self._streams = itertools.count(0x1000, 0x10)
        self._lock = threading.RLock()  # the collector may give things back from inside
        self._thread = threading.local()
        self._losses = Losses()

    def own(self, address: int, device: int) -> None:
        """Let an address count as memory of a device."""
        self._foreign[address] = device

    def version(self) -> Version:
        """CUDA release that the driver serves."""
        return self.devices[0].driver

    def device_count(self) -> int:
        """Number of visible devices."""
        return len(self.devices)

    def device(self, ordinal: int) -> DeviceInfo:
        """Facts about one device."""
        if not 0 <= ordinal < len(self.devices):
            raise NoDeviceError(
                f"there is no device {ordinal}: this process sees {len(self.devices)}, numbered from 0"
            )
        return self.devices[ordinal]

    @contextlib.contextmanager
    def current(self, ordinal: int) -> Iterator[None]:
        """Make the device current, and restore the thread's own afterwards."""
        self.device(ordinal)
        self._losses.check(ordinal)
        before = self._current
        self._thread.current = ordinal
        try:
            yield
        finally:
            self._thread.current = before

    def adopt(self, ordinal: int) -> None:
        """Make device 0 current in a thread that has none."""
        if ordinal == 0 and self._current is None:
            self._thread.current = ordinal

    @property
    def _current(self) -> int | None:
        """The device that is current in this thread; None in a new one."""
        current: int | None = getattr(self._thread, "current", None)
        return current

    def load_module(self, ordinal: int, data: bytes) -> tuple[int, bytes]:
        """Load an image: any bytes will do."""
        self._note("load_module", ordinal)
        with self._lock:
            self.loads.append((ordinal, data))
        return ordinal, data

    def function(self, module: tuple[int, bytes], symbol: str) -> str:
        """Look up an entry point: any name will do."""
        self._note("function")
        return symbol

    def function_facts(self, function: str) -> FunctionFacts:
        """Resources of an entry point."""
        return self._kernel(function).facts

    def allow_shared(self, function: str, size: int) -> None:
        """Let launches of the function use up to `size` bytes of dynamic shared memory."""
        self._note("allow_shared")
        self.allowed_shared[function] = max(size, self.allowed_shared.get(function, 0))

    def allow_wide_clusters(self, function: str) -> None:
        """Let launches of the function use clusters of more than 8 blocks."""
        self._note("allow_wide_clusters")

    def tensor_map(
        self,
        ordinal: int,
        wanted: TensorMap,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> bytes:
        """Return the request as 16 numbers: element, swizzle, address, then box, shape and stride of
        each dimension.
        """
        with self.current(ordinal):
            self._note("tensor_map", ordinal)
        numbers = (
            wanted.element,
            wanted.swizzle,
            address,
            *(n for row in zip(wanted.box, shape, strides, strict=True) for n in row),
        )
        return struct.pack("16Q", *numbers, *(0,) * (16 - len(numbers)))

    def active_blocks(self, ordinal: int, function: str, threads: int, shared: int) -> int:
        """Blocks of a launch that are resident on one multiprocessor at a time."""
        return self._kernel(function).active_blocks

    def active_clusters(self, ordinal: int, function: str, shape: LaunchShape) -> int:
        """Clusters of a launch that are resident on the device at a time."""
        return self._kernel(function).active_clusters

    def widest_cluster(self, ordinal: int, function: str, shape: LaunchShape) -> int:
        """The most blocks that a cluster of such a launch can have."""
        return self._kernel(function).widest_cluster

    def bind_launch(
        self, ordinal: int, function: str, shape: LaunchShape, stream: int, parts: LaunchParts
    ) -> LaunchCall:
        """Return a call that decodes its arguments, records itself, and runs the kernel's function.

        With several devices it makes its own current, as the real driver does; with one, the thread
        must have its context.
        """
        kernel = self._kernel(function)
        lost = self._losses.errors
        self._losses.suspect(ordinal, parts.kernel, shape, stream)

        def call(parameters: int, extra: int) -> tuple[str]:
            assert extra == 0
            if len(self.devices) == 1 and self._current != ordinal:
                with self._lock:
                    self.errors.append(f"cuLaunchKernelEx: {_NO_CONTEXT}")
                return (_NO_CONTEXT,)
            if ordinal in lost:
                return (lost[ordinal].result,)
            arguments = tuple(
                _unpack(parameters, index, slot) for index, slot in enumerate(kernel.abi)
            )

            def work(where: int) -> None:
                self._step("launch", where, 0)
                with self._lock:
                    self.launches.append(
                        FakeLaunch(
                            device=ordinal,
                            symbol=function,
                            shape=shape,
                            stream=where,
                            arguments=arguments,
                        )
                    )
                if "launch" not in self.fail and kernel.run is not None:
                    kernel.run(*arguments)

            try:
                self._work(stream, f"launch of {parts.kernel}", work)
            except DriverError as error:  # the capture is invalid
                return (error.result,)
            return (self.fail.get("launch", ""),)

        return call

    def launch_target(self, ordinal: int) -> Callable[..., str]:
        """A launch as the launch core asks for it: decoded and recorded as one that was bound."""

        def launch(
            plan: Any, grid: Dim3, block: Dim3, shared: int, stream: int, parameters: int
        ) -> str:
            attributes = {
                "cluster": plan.cluster,
                "cooperative": plan.cooperative,
                "programmatic": plan.programmatic,
            }
            shape = LaunchShape(grid=grid, block=block, shared=shared, **attributes)
            parts = LaunchParts(kernel=plan.variant, sizes=(), addresses=(), tensors=())
            result: str = self.bind_launch(ordinal, plan.function, shape, stream, parts)(
                parameters, 0
            )[0]
            return result

        return launch

    def launch_failed(
        self, ordinal: int, result: str, stream: int, retry: Callable[[], Any], kernel: str
    ) -> None:
        """Try again in the device's context where the thread had none; raise for a launch that
        failed otherwise.
        """
        if result == _NO_CONTEXT:
            self.adopt(ordinal)
            result = retry()
            if not result:
                return
        raise self._losses.failed(ordinal, "the launch", result, 0, kernel=kernel)

    def pointer_device(self, address: int) -> int | None:
        """Device of an address: of an allocation, or as told by `own`."""
        return self._foreign.get(address, self._memory.get(address, (None, None))[0])

    def allocation(self, address: int) -> tuple[int, int] | None:
        """Return the allocation that contains an address."""
        held = ((start, len(buffer) - 256) for start, (_, buffer) in self._memory.items())
        return next(
            ((start, size) for start, size in held if start <= address < start + size), None
        )

    def allocate(self, ordinal: int, size: int, stream: int | None, pool: int | None = None) -> int:
        """Host memory, aligned to 256 bytes."""
        self._note("allocate", ordinal)
        self._captures.refuse(stream, "cuMemAllocAsync")
        buffer = ctypes.create_string_buffer(size + 256)
        address = -(-ctypes.addressof(buffer) // 256) * 256
        self._memory[address] = (ordinal, buffer)
        self._step("allocate", stream, address)
        if stream is not None:
            self._pools[pool or 0].add(address, size)
        return address

    def free(self, ordinal: int, address: int, stream: int | None) -> None:
        """Give memory back; a second time is an error."""
        self._note("free", ordinal)
        self._captures.refuse(stream, "cuMemFreeAsync")
        if self._memory.pop(address, None) is None:
            raise DriverError(
                f"cuMemFree failed: CUDA_ERROR_INVALID_VALUE ({address:#x})",
                result="CUDA_ERROR_INVALID_VALUE",
                code=1,
            )
        self._step("free", stream, address)
        for pool in self._pools.values():
            pool.sizes.pop(address, None)

    def allocate_pinned(self, ordinal: int, size: int) -> int:
        """Host memory as any other."""
        return self.allocate(ordinal, size, None)

    def free_pinned(self, ordinal: int, address: int) -> None:
        """Give it back."""
        if ordinal not in self._losses:
            self.free(ordinal, address, None)

    def memory_info(self, ordinal: int) -> tuple[int, int]:
        """A device of 1 GiB."""
        self._losses.check(ordinal)
        return 2**30 - sum(sum(pool.sizes.values()) for pool in self._pools.values()), 2**30

    def copy_in(self, ordinal: int, address: int, source: int, size: int, stream: int) -> None:
        """Copy host memory to an allocation."""
        self._losses.check(ordinal)
        self._captures.refuse(stream, "cuStreamSynchronize")
        ctypes.memmove(address, source, size)

    def copy_out(self, ordinal: int, target: int, address: int, size: int, stream: int) -> None:
        """Copy an allocation to host memory."""
        self._losses.check(ordinal)
        self._captures.refuse(stream, "cuStreamSynchronize")
        ctypes.memmove(target, address, size)

    def copy_async(
        self, ordinal: int, target: int, source: int, size: int, stream: int, kind: CopyKind
    ) -> None:
        """Copy at once."""
        self._note("copy_async", ordinal)

        def copy(where: int) -> None:
            self._step("copy", where, target)
            ctypes.memmove(target, source, size)

        self._work(stream, f"copy {kind.value}", copy)

    def copy_box(
        self, ordinal: int, target: int, source: int, box: CopyBox, stream: int, kind: CopyKind
    ) -> None:
        """Copy at once."""
        self._note("copy_box", ordinal)

        def copy(where: int) -> None:
            self._step("copy", where, target)
            for slice_index, row in itertools.product(range(box.slices), range(box.rows)):
                to, of = (
                    slice_index * box.target_slice + row * box.target_pitch,
                    slice_index * box.source_slice + row * box.source_pitch,
                )
                ctypes.memmove(target + to, source + of, box.width)

        self._work(stream, f"copy of rows {kind.value}", copy)

    def fill(self, ordinal: int, address: int, byte: int, size: int, stream: int) -> None:
        """Set every byte of an allocation."""
        self._losses.check(ordinal)

        def fill(where: int) -> None:
            self._step("fill", where, address)
            ctypes.memset(address, byte, size)

        self._work(stream, "fill", fill)

    def default_pool(self, ordinal: int) -> int:
        """Pool 0."""
        return 0

    def create_pool(self, ordinal: int, release_threshold: int, max_size: int = 0) -> int:
        """A number that names a pool."""
        self._note("create_pool", ordinal)
        handle = next(self._streams)
        self._pools[handle] = _FakePool(threshold=release_threshold)
        return handle

    def destroy_pool(self, ordinal: int, pool: int) -> None:
        """Forget it."""
        if self._given_back("destroy_pool", ordinal):
            del self._pools[pool]

    def set_release_threshold(self, ordinal: int, pool: int, size: int) -> None:
        """Remember it."""
        self._note("set_release_threshold", ordinal)
        self._pools[pool].threshold = size

    def pool_stats(self, ordinal: int, pool: int) -> PoolStats:
        """Return the allocated bytes; the pool caches nothing."""
        pool_state = self._pools[pool]
        used = sum(pool_state.sizes.values())
        return PoolStats(
            used=used,
            reserved=used,
            used_high=pool_state.high,
            reserved_high=pool_state.high,
            release_threshold=pool_state.threshold,
        )

    def trim_pool(self, ordinal: int, pool: int, keep: int) -> None:
        """There is nothing to give back."""
        self._note("trim_pool", ordinal)

    def create_stream(self, ordinal: int) -> int:
        """A number that names a stream."""
        self._note("create_stream", ordinal)
        return next(self._streams)

    def destroy_stream(self, ordinal: int, stream: int) -> None:
        """Nothing is left to give back."""
        self._given_back("destroy_stream", ordinal)

    def synchronize(self, ordinal: int, stream: int) -> None:
        """Launches have run when they return."""
        self._note("synchronize", ordinal)
        self._captures.refuse(stream, "cuStreamSynchronize")

    def synchronize_device(self, ordinal: int) -> None:
        """Launches have run when they return."""
        self._note("synchronize_device", ordinal)
        self._captures.refuse_all("cuCtxSynchronize")

    def create_event(self, ordinal: int, *, timed: bool = True, blocking: bool = False) -> int:
        """A number that names an event."""
        self._note("create_event", ordinal)
        return next(self._streams)

    def destroy_event(self, ordinal: int, event: int) -> None:
        """Nothing is left to give back."""
        self._captures.forget(event)
        self._recorded.discard(event)
        self._given_back("destroy_event", ordinal)

    def position(self, ordinal: int, stream: int) -> int:
        """Return 0: this driver does not number its work."""
        return 0

    def event_failure(self, ordinal: int, event: int) -> BaseException | None:
        """Launches fail at once, or not at all."""
        return None

    def record_event(self, ordinal: int, event: int, stream: int, since: int | None = None) -> None:
        """Work is done when it returns, and so is everything before the mark."""
        self._note("record_event", ordinal)
        if not self._captures.record(event, stream):
            self._recorded.add(event)
            self._step("record", stream, event)

    def wait_event(self, ordinal: int, stream: int, event: int, *, anyway: bool = False) -> None:
        """There is nothing to wait for."""
        self._note("wait_event", ordinal)
        if not self._captures.wait(stream, event, set_outside=event in self._recorded):
            self._step("wait", stream, event)

    def event_reached(self, ordinal: int, event: int) -> bool:
        """Unless it is one of `pending`."""
        self._losses.check(ordinal)
        self._captures.ask(event, "cuEventQuery")
        return event not in self.pending

    def synchronize_event(self, ordinal: int, event: int) -> None:
        """Wait until the event is no longer in `pending`."""
        self._note("synchronize_event", ordinal)
        self._captures.ask(event, "cuEventSynchronize")
        while event in self.pending:
            time.sleep(1e-3)
            self._losses.check(ordinal)

    def elapsed(self, ordinal: int, start: int, end: int) -> float:
        """Work here takes no time."""
        return 0.0

    def _work(self, stream: int, kind: str, work: Callable[[int], None]) -> None:
        """Do something at once, or note it for a graph where the stream is captured."""
        if not self._captures.add(stream, kind, work):
            work(stream)

    def _replay(self, executable: Executable, nodes: Graph, stream: int) -> None:
        """Run the nodes of a graph at once."""
        for node in nodes:
            node(stream)

    def _step(self, call: str, stream: int | None, what: int) -> None:
        with self._lock:
            self.steps.append(FakeStep(call=call, stream=stream, what=what))

    def _kernel(self, symbol: str) -> FakeKernel:
        return self.kernels.get(symbol, FakeKernel())

    def _note(self, call: str, ordinal: int = 0) -> None:
        """Count a call; raise if it is set to fail, or if the device's context is lost."""
        self.calls.append(call)
        self._losses.check(ordinal)
        if call in self.fail:
            raise self._losses.failed(ordinal, call, self.fail[call], 0)

    def _given_back(self, call: str, ordinal: int) -> bool:
        """Count a call that gives something back; whether there is something left to give back."""
        if ordinal in self._losses:
            self.calls.append(call)
            return False
        self._note(call, ordinal)
        return True


def _noting(name: str) -> Callable[..., Any]:
    """Return a graph function that counts its calls, and fails where it is set to."""
    call = getattr(GraphDouble, name)

    def noted(self: FakeDriver, ordinal: int, *arguments: Any) -> Any:
        if name.startswith("destroy"):
            self._given_back(name, ordinal)
        else:
            self._note(name, ordinal)
        return call(self, ordinal, *arguments)

    return noted


for _name in (
    *("begin_capture", "end_capture", "instantiate_graph", "launch_graph"),
    *("destroy_graph", "destroy_executable"),
):
    setattr(FakeDriver, _name, _noting(_name))


@dataclasses.dataclass(slots=True)
class _FakePool:
    threshold: int = 0
    high: int = 0
    sizes: dict[int, int] = dataclasses.field(default_factory=dict)

    def add(self, address: int, size: int) -> None:
        self.sizes[address] = size
        self.high = max(self.high, sum(self.sizes.values()))


def _unpack(parameters: int, index: int, slot: AbiSlot) -> Any:
    """One argument, read as the driver does: through the array of addresses."""
    address = (
        ctypes.c_void_p.from_address(parameters + index * ctypes.sizeof(ctypes.c_void_p)).value or 0
    )
    data = ctypes.string_at(address, slot.size)
    if slot.type.startswith("scratch:"):
        return int.from_bytes(data, "little")
    plain = slot.type == "struct" or slot.type.startswith("tensormap:")
    return data if plain else struct.unpack(f"={format_of(slot.type)}", data)[0]
