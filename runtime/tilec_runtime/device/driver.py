"""The CUDA driver: images, launches, captures, graphs. Results become errors."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilec_runtime.device.core import CORE
from tilec_runtime.device.driver_calls import no_driver
from tilec_runtime.device.driver_memory import MemoryCalls
from tilec_runtime.device.libcuda import LaunchAttribute, LaunchConfig, Libcuda
from tilec_runtime.device.seam import (
    DeviceInfo,
    ExecutableHandle,
    FunctionFacts,
    FunctionHandle,
    GraphHandle,
    LaunchCall,
    LaunchParts,
    LaunchShape,
    ModuleHandle,
)
from tilec_runtime.errors import DriverError
from tilec_runtime.forks import Once
from tilec_runtime.model.arch import Version

if TYPE_CHECKING:
    from tilec_runtime.model.tensormap import TensorMap

_INVALID_CONTEXT, _INVALID_HANDLE = 201, 400
_CAPTURE_UNSUPPORTED, _CAPTURE_IMPLICIT = 900, 906
# Attributes of devices and functions, as cuda.h numbers them.
_DEVICE_FACTS = {
    "max_threads": 1,
    "shared_default": 8,
    "multiprocessors": 16,
    "l2": 38,
    "cooperative": 95,
    "shared_optin": 97,
    "cluster": 120,
}
_BLOCK, _GRID, _CAPABILITY = (2, 3, 4), (5, 6, 7), (75, 76)
_FUNCTION_FACTS = {"max_threads": 0, "static_shared": 1, "registers": 4}
_DYNAMIC_SHARED, _REQUIRED_CLUSTER, _WIDE_CLUSTERS = 8, (11, 12, 13), 14
# Attributes of launches.
_COOPERATIVE, _CLUSTER, _PROGRAMMATIC = 2, 4, 6
# A tensor map: its size and alignment in bytes, and the L2 promotion of its copies (128 bytes).
_MAP_SIZE, _MAP_ALIGN, _L2_128_BYTES = 128, 64, 2
_RELAXED = 2


@Once
def driver() -> Driver:
    """Return the process's driver, started at the first call.

    Raises:
        NoDeviceError: there is no driver or no GPU.
    """
    try:
        api = Libcuda()
    except OSError as error:
        raise no_driver(error) from error
    return Driver(api)


class Driver(MemoryCalls):
    """`DeviceDriver` on libcuda, in the primary contexts that torch and CuPy use too."""

    holds_arguments = False  # callers keep tensors alive, as for every launch of CUDA

    # Devices

    def version(self) -> Version:
        """Return the CUDA release that the driver supports."""
        number: int = self._ask("cuDriverGetVersion")
        return number // 1000, number % 1000 // 10

    def device_count(self) -> int:
        """Return the number of visible devices."""
        return self._count

    def device(self, ordinal: int) -> DeviceInfo:
        """Return facts about one device, without making a context."""
        device = self._device(ordinal)

        def facts(*attributes: int) -> Any:
            return tuple(
                [self._ask("cuDeviceGetAttribute", number, device) for number in attributes]
            )

        known = dict(zip(_DEVICE_FACTS, facts(*_DEVICE_FACTS.values()), strict=True))
        return DeviceInfo(
            ordinal=ordinal,
            name=self._ask("cuDeviceGetName", 256, device).decode("utf-8", "replace"),
            cc=facts(*_CAPABILITY),
            driver=self.version(),
            max_grid=facts(*_GRID),
            max_block=facts(*_BLOCK),
            **{
                **known,
                "cooperative": bool(known["cooperative"]),
                "cluster": bool(known["cluster"]),
            },
        )

    # Images

    def load_module(self, ordinal: int, data: bytes) -> ModuleHandle:
        """Load an image into the device's primary context."""
        # The driver reads PTX up to a zero byte. A bytes object has one behind its end, a view of a
        # file may not.
        with self.current(ordinal):
            return self._ask("cuModuleLoadData", data + b"\0")

    def function(self, module: ModuleHandle, symbol: str) -> FunctionHandle:
        """Look up an entry point."""
        return self._ask("cuModuleGetFunction", module, symbol.encode())

    def function_facts(self, function: FunctionHandle) -> FunctionFacts:
        """Return the resources of an entry point."""

        def fact(attribute: int) -> int:
            value: int = self._ask("cuFuncGetAttribute", attribute, function)
            return value

        cluster = tuple(map(fact, _REQUIRED_CLUSTER)) if fact(_REQUIRED_CLUSTER[0]) else ()
        known = {name: fact(attribute) for name, attribute in _FUNCTION_FACTS.items()}
        return FunctionFacts(**known, cluster=cluster)

    def allow_shared(self, function: FunctionHandle, size: int) -> None:
        """Let launches of the function use up to `size` bytes of dynamic shared memory."""
        with self._lock:  # the limit only grows: a launch prepared in another thread stays valid
            if self._ask("cuFuncGetAttribute", _DYNAMIC_SHARED, function) < size:
                self._ask("cuFuncSetAttribute", function, _DYNAMIC_SHARED, size)

    def allow_wide_clusters(self, function: FunctionHandle) -> None:
        """Let launches of the function use clusters of more than 8 blocks."""
        self._ask("cuFuncSetAttribute", function, _WIDE_CLUSTERS, 1)

    # Launches

    def tensor_map(
        self,
        ordinal: int,
        wanted: TensorMap,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> bytes:
        """Return the bytes of a tensor map; strides are in bytes."""
        rank, room = len(shape), ctypes.create_string_buffer(_MAP_SIZE + _MAP_ALIGN)
        aligned = -(-ctypes.addressof(room) // _MAP_ALIGN) * _MAP_ALIGN
        with self.current(ordinal):  # at a thread's first launch it may have no context
            self._ask(
                "cuTensorMapEncodeTiled",
                aligned,
                wanted.element,
                rank,
                address,
                # CUDA counts dimensions from the innermost one.
                (ctypes.c_uint64 * rank)(*reversed(shape)),
                (ctypes.c_uint64 * rank)(*reversed(strides[:-1])),
                (ctypes.c_uint32 * rank)(*reversed(wanted.box)),
                (ctypes.c_uint32 * rank)(*[1] * rank),
                0,
                wanted.swizzle,
                _L2_128_BYTES,
                0,
            )
        return ctypes.string_at(aligned, _MAP_SIZE)

    def active_blocks(
        self, ordinal: int, function: FunctionHandle, threads: int, shared: int
    ) -> int:
        """Count the blocks of a launch that are resident on one multiprocessor at once."""
        with self.current(ordinal):
            return int(
                self._ask("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, shared)
            )

    def active_clusters(self, ordinal: int, function: FunctionHandle, shape: LaunchShape) -> int:
        """Count the clusters of a launch that are resident on the device at once."""
        with self.current(ordinal):
            return int(self._ask("cuOccupancyMaxActiveClusters", function, _config(shape, 0)))

    def widest_cluster(self, ordinal: int, function: FunctionHandle, shape: LaunchShape) -> int:
        """Return the most blocks per cluster for a launch; ignore `shape.cluster`."""
        plain = LaunchShape(grid=shape.grid, block=shape.block, shared=shape.shared)
        with self.current(ordinal):
            return int(self._ask("cuOccupancyMaxPotentialClusterSize", function, _config(plain, 0)))

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
        self._losses.suspect(ordinal, parts.kernel, shape, stream)
        context = self._context(ordinal)
        # The legacy default stream belongs to the current context. If the process has several
        # contexts, each launch has to compare the thread's with the device's.
        alone = self._count == 1 and self._ask("cuCtxGetCurrent") in (0, context)
        launch = functools.partial(self._api.cuLaunchKernelEx, _config(shape, stream), function)

        def launch_here(parameters: int, extra: int) -> Any:
            if alone or self._api.cuCtxGetCurrent()[1] == context:
                return launch(parameters, extra)
            pushed = self._api.cuCtxPushCurrent(context)
            if pushed[0]:
                return pushed
            try:
                return launch(parameters, extra)
            finally:
                self._api.cuCtxPopCurrent()

        return launch_here

    def launch_target(self, ordinal: int) -> int | None:
        """Return the handle of the device's context, or None for a test double of libcuda.

        The launch core calls libcuda itself, and cannot call a double.
        """
        return self._context(ordinal) if isinstance(self._api, Libcuda) else None

    def launch_failed(
        self, ordinal: int, result: Any, stream: int, retry: Callable[[], Any], kernel: str
    ) -> None:
        """Handle a launch that failed.

        If only the thread's context was wrong, `retry` in the right one; otherwise raise.
        """
        if self._is_final(result):
            raise self._error("the launch", result, kernel=kernel, ordinal=ordinal)
        context = self._context(ordinal)
        if result in (_INVALID_CONTEXT, _INVALID_HANDLE):
            current = self._ask("cuCtxGetCurrent")
            if current == 0:  # a new thread
                self.adopt(ordinal)
            if current != context:
                with self.current(ordinal):
                    result = retry()
            if not result:
                return
        owner = self._stream_device(ordinal, stream) if result == _INVALID_HANDLE else None
        if owner is not None and owner != ordinal:
            message = f"{kernel}: the kernel is loaded on device {ordinal}, the stream is on device {owner}"
            raise DriverError(
                message,
                result="CUDA_ERROR_INVALID_HANDLE",
                code=_INVALID_HANDLE,
                fix="pass a stream of that device",
                kernel=kernel,
                device=ordinal,
            )
        raise self._error("the launch", result, kernel=kernel, ordinal=ordinal)

    def _stream_device(self, ordinal: int, stream: int) -> int | None:
        with self.current(ordinal):
            result, *values = self._api.cuStreamGetCtx(stream)
        if result:
            return None
        with self._pushed(values[0]):
            return int(self._ask("cuCtxGetDevice"))

    # Captures and graphs

    def begin_capture(self, ordinal: int, stream: int) -> None:
        """Begin a capture in the relaxed mode.

        The garbage collector may free memory or destroy an event on this thread at any time, and a
        kernel's first launch loads its image. The other modes forbid both during a capture, and a
        forbidden call breaks it. Calls that must not be in a graph are refused before the driver is
        called.
        """
        with self.current(ordinal):
            self._ask("cuStreamBeginCapture", stream, _RELAXED)

    def end_capture(self, ordinal: int, stream: int) -> GraphHandle:
        """End a capture and return its graph; the stream runs its work again."""
        with self.current(ordinal):
            return self._ask("cuStreamEndCapture", stream)

    def capturing(self, ordinal: int, stream: int) -> bool:
        """Whether any library captures a stream."""
        result, *status = self._api.cuStreamIsCapturing(stream)
        if result in (_INVALID_CONTEXT, _INVALID_HANDLE):
            with self.current(ordinal):
                result, *status = self._api.cuStreamIsCapturing(stream)
        # The legacy default stream gives this result while a stream that waits for it is captured.
        return bool(status[0]) if not result else result == _CAPTURE_IMPLICIT

    def outside_captures(self, ordinal: int) -> _Relaxed:  # noqa: ARG002 - the capture mode is per thread
        """Let this thread make calls that would break captures: waits, frees, loads."""
        return _Relaxed(self._api)

    def instantiate_graph(self, ordinal: int, graph: GraphHandle) -> ExecutableHandle:
        """Return an executable of a graph."""
        with self.current(ordinal):
            return self._ask("cuGraphInstantiate", graph, 0)

    def upload_graph(self, ordinal: int, executable: ExecutableHandle, stream: int) -> None:
        """Upload an executable in stream order, so that its first launch need not."""
        with self.current(ordinal):
            self._ask("cuGraphUpload", executable, stream)

    def launch_graph(self, ordinal: int, executable: ExecutableHandle, stream: int) -> None:
        """Launch an executable in stream order, and after all its earlier launches."""
        target = self.launch_target(ordinal)
        if CORE is None or target is None:
            if self.capturing(ordinal, stream):
                raise self._error("cuGraphLaunch", _CAPTURE_UNSUPPORTED, ordinal=ordinal)
            with self.current(ordinal):
                self._ask("cuGraphLaunch", executable, stream)
        elif result := CORE.launch_graph(
            target, ordinal == 0, executable, stream
        ):  # device 0: see `adopt`
            raise self._error("cuGraphLaunch", result, ordinal=ordinal)

    def graph_nodes(self, graph: GraphHandle) -> int:
        """Return the number of nodes of a graph."""
        count: int = self._ask("cuGraphGetNodes", graph, None)
        return count

    def destroy_graph(self, ordinal: int, graph: GraphHandle) -> None:
        """Destroy a graph; its executables stay valid."""
        self._give_back(ordinal, "cuGraphDestroy", graph)

    def destroy_executable(self, ordinal: int, executable: ExecutableHandle) -> None:
        """Destroy an executable; its launches still finish."""
        self._give_back(ordinal, "cuGraphExecDestroy", executable)


class _Relaxed:
    """The relaxed capture mode for this thread.

    A class, because a generator would slow down frees.
    """

    __slots__ = ("_api", "_mode")

    def __init__(self, api: Any) -> None:
        self._api = api

    def __enter__(self) -> None:
        self._mode = ctypes.c_int(_RELAXED)
        self._api.cuThreadExchangeStreamCaptureMode(ctypes.byref(self._mode))

    def __exit__(self, *_: object) -> None:
        self._api.cuThreadExchangeStreamCaptureMode(ctypes.byref(self._mode))


def _config(shape: LaunchShape, stream: int) -> Any:
    """Return a reference to the driver's launch configuration.

    It keeps the attributes alive.
    """
    attributes = []
    if extents := shape.cluster_dim:
        cluster = LaunchAttribute(id=_CLUSTER)
        cluster.value.cluster = extents
        attributes.append(cluster)
    for wanted, number in ((shape.cooperative, _COOPERATIVE), (shape.programmatic, _PROGRAMMATIC)):
        if wanted:
            attribute = LaunchAttribute(id=number)
            attribute.value.number = 1
            attributes.append(attribute)
    array = (LaunchAttribute * len(attributes))(*attributes)
    config = LaunchConfig(*shape.grid, *shape.block, shape.shared, stream, array, len(attributes))
    return ctypes.byref(config)
