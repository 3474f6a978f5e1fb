"""The CUDA driver through cuda.bindings: the only module that touches it; results become typed errors with cause and fix here."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tilec.errors import DriverError, MissingError, NoDeviceError
from tilec.model.arch import Version
from tilec.runtime.results import ADVICE, NO_DEVICE
from tilec.runtime.seam import Device, Dim3, FunctionFacts, FunctionHandle, LaunchCall, LaunchParts, LaunchShape, ModuleHandle

_PORTABLE_CLUSTER = 8
_INVALID_CONTEXT = 201
_INVALID_HANDLE = 400
_NOT_READY = 600


@functools.cache
def driver() -> Driver:
    """The process's driver, started at the first call.

    Raises:
        NoDeviceError: there is no driver or no GPU.
        MissingError: cuda-bindings is not installed.
    """
    try:
        from cuda.bindings import driver as api
    except ImportError as error:
        what = f"the package cuda-bindings cannot be imported: {error}"
        raise MissingError(what, fix="install it: pip install 'cuda-bindings>=13.0,<14'") from error
    return Driver(api)


class Driver:
    """`DeviceDriver` on cuda.bindings. All contexts are the devices' primary ones, which torch and CuPy share."""

    holds_arguments = False  # streams of CUDA outlive no tensor by themselves: that is the caller's care, as with every other launch

    def __init__(self, api: Any) -> None:
        """Start the driver API.

        Args:
            api: the module `cuda.bindings.driver`.
        """
        self._api = api
        self._success = api.CUresult.CUDA_SUCCESS
        self._lock = threading.Lock()
        self._contexts: dict[int, Any] = {}
        try:
            result = api.cuInit(0)[0]
        except (RuntimeError, OSError) as error:  # the bindings find libcuda at their first call
            raise _no_driver(error) from error
        if result != self._success:
            raise self._no_device("cuInit", result)
        self._count = int(self._ask("cuDeviceGetCount"))
        if self._count == 0:
            raise self._no_device("cuDeviceGetCount", api.CUresult.CUDA_ERROR_NO_DEVICE)

    # Devices and contexts

    def version(self) -> Version:
        """CUDA release that the driver serves."""
        number = int(self._ask("cuDriverGetVersion"))
        return number // 1000, number % 1000 // 10

    def device_count(self) -> int:
        """Number of visible devices."""
        return self._count

    def device(self, ordinal: int) -> Device:
        """Facts about one device; asking for them makes no context."""
        handle = self._handle(ordinal)
        names = self._api.CUdevice_attribute

        def fact(name: str) -> int:
            return int(self._ask("cuDeviceGetAttribute", getattr(names, f"CU_DEVICE_ATTRIBUTE_{name}"), handle))

        def axes(name: str) -> Dim3:
            return fact(f"MAX_{name}_DIM_X"), fact(f"MAX_{name}_DIM_Y"), fact(f"MAX_{name}_DIM_Z")

        raw = self._ask("cuDeviceGetName", 256, handle)
        return Device(
            ordinal=ordinal,
            name=bytes(raw).split(b"\0", 1)[0].decode("utf-8", "replace"),
            cc=(fact("COMPUTE_CAPABILITY_MAJOR"), fact("COMPUTE_CAPABILITY_MINOR")),
            driver=self.version(),
            max_grid=axes("GRID"),
            max_block=axes("BLOCK"),
            max_threads=fact("MAX_THREADS_PER_BLOCK"),
            shared_default=fact("MAX_SHARED_MEMORY_PER_BLOCK"),
            shared_optin=fact("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            multiprocessors=fact("MULTIPROCESSOR_COUNT"),
            cooperative=bool(fact("COOPERATIVE_LAUNCH")),
            cluster=bool(fact("CLUSTER_LAUNCH")),
        )

    @contextlib.contextmanager
    def current(self, ordinal: int) -> Iterator[None]:
        """Make the device's primary context current, and restore the thread's own afterwards."""
        with self._pushed(self._context(ordinal)):
            yield

    def adopt(self, ordinal: int) -> None:
        """Give a thread that has no context the device's primary one, for good, as the CUDA runtime does it."""
        if not int(self._ask("cuCtxGetCurrent")):
            self._ask("cuCtxSetCurrent", self._context(ordinal))

    @contextlib.contextmanager
    def _pushed(self, context: Any) -> Iterator[None]:
        self._ask("cuCtxPushCurrent", context)
        try:
            yield
        finally:
            self._ask("cuCtxPopCurrent")

    def _handle(self, ordinal: int) -> Any:
        if not 0 <= ordinal < self._count:
            what = f"there is no device {ordinal}: this process sees {self._count}, numbered from 0"
            raise NoDeviceError(what, fix=ADVICE["CUDA_ERROR_INVALID_DEVICE"][1])
        return self._ask("cuDeviceGet", ordinal)

    def _context(self, ordinal: int) -> Any:
        """The primary context of a device, retained once and kept for the process."""
        found = self._contexts.get(ordinal)
        if found is None:
            with self._lock:
                if ordinal not in self._contexts:
                    self._contexts[ordinal] = self._ask("cuDevicePrimaryCtxRetain", self._handle(ordinal))
                found = self._contexts[ordinal]
        return found

    # Images

    def load_module(self, ordinal: int, data: bytes) -> ModuleHandle:
        """Load an image into the device's primary context."""
        # The driver reads PTX up to a zero byte, which a Python bytes object ends with but a view of a file may not.
        with self.current(ordinal):
            return self._ask("cuModuleLoadData", data + b"\0")

    def function(self, module: ModuleHandle, symbol: str) -> FunctionHandle:
        """Look up an entry point."""
        return self._ask("cuModuleGetFunction", module, symbol.encode())

    def function_facts(self, function: FunctionHandle) -> FunctionFacts:
        """Resources of an entry point."""
        names = self._api.CUfunction_attribute

        def fact(name: str) -> int:
            return int(self._ask("cuFuncGetAttribute", getattr(names, f"CU_FUNC_ATTRIBUTE_{name}"), function))

        return FunctionFacts(max_threads=fact("MAX_THREADS_PER_BLOCK"), static_shared=fact("SHARED_SIZE_BYTES"), registers=fact("NUM_REGS"))

    def allow_shared(self, function: FunctionHandle, size: int) -> None:
        """Let launches of the function use up to `size` bytes of dynamic shared memory."""
        name = self._api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        with self._lock:  # the limit only grows: a launch that is being prepared elsewhere keeps what it was promised
            if int(self._ask("cuFuncGetAttribute", name, function)) < size:
                self._ask("cuFuncSetAttribute", function, name, size)

    def allow_wide_clusters(self, function: FunctionHandle) -> None:
        """Let launches of the function use clusters of more than 8 blocks."""
        name = self._api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        self._ask("cuFuncSetAttribute", function, name, 1)

    # Launches

    def active_blocks(self, ordinal: int, function: FunctionHandle, threads: int, shared: int) -> int:
        """Blocks of a launch that are resident on one multiprocessor at a time."""
        with self.current(ordinal):
            return int(self._ask("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, shared))

    def active_clusters(self, ordinal: int, function: FunctionHandle, shape: LaunchShape) -> int:
        """Clusters of a launch that are resident on the device at a time."""
        with self.current(ordinal):
            return int(self._ask("cuOccupancyMaxActiveClusters", function, self._config(shape, 0)))

    def bind_launch(
        self,
        ordinal: int,
        function: FunctionHandle,
        shape: LaunchShape,
        stream: int,
        parts: LaunchParts,  # noqa: ARG002 - the image's own code knows what its arguments are
    ) -> LaunchCall:
        """A call that enqueues this launch; it reports failure by its result and never raises for one."""
        # A ready configuration costs less per call than nine numbers do.
        call: LaunchCall = functools.partial(self._api.cuLaunchKernelEx, self._config(shape, stream), function)
        expected, get_current = int(self._context(ordinal)), self._api.cuCtxGetCurrent
        if self._count == 1 and int(self._ask("cuCtxGetCurrent")) in (0, expected):
            return call
        # The legacy default stream is the current context's: where there are several, the thread's is looked at each time.

        def call_here(parameters: int, extra: int) -> Any:
            if int(get_current()[1]) == expected:
                return call(parameters, extra)
            with self.current(ordinal):
                return call(parameters, extra)

        return call_here

    def launch_failed(self, ordinal: int, result: Any, stream: int, retry: Callable[[], Any], kernel: str) -> None:
        """Deal with a launch that failed: where only the thread's context was wrong, `retry` under the right one; raise otherwise."""
        code = int(result)
        context = self._context(ordinal)
        if code in (_INVALID_CONTEXT, _INVALID_HANDLE):
            current = int(self._ask("cuCtxGetCurrent"))
            if current == 0:  # a new thread
                self.adopt(ordinal)
                result = retry()
            elif current != int(context):
                with self.current(ordinal):
                    result = retry()
            if int(result) == 0:
                return
        owner = self._stream_device(ordinal, stream) if int(result) == _INVALID_HANDLE else None
        if owner is not None and owner != ordinal:
            what = f"{kernel}: the kernel is loaded on device {ordinal}, the stream is on device {owner}"
            raise DriverError(
                what, result="CUDA_ERROR_INVALID_HANDLE", code=_INVALID_HANDLE, fix="pass a stream of that device", kernel=kernel
            )
        raise self._error("the launch", result, kernel=kernel)

    def _stream_device(self, ordinal: int, stream: int) -> int | None:
        with self.current(ordinal):
            result, *values = self._api.cuStreamGetCtx(stream)
        if result != self._success:
            return None
        with self._pushed(values[0]):
            return int(self._ask("cuCtxGetDevice"))

    def _config(self, shape: LaunchShape, stream: int) -> Any:
        api = self._api
        config = api.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = shape.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = shape.block
        config.sharedMemBytes = shape.shared
        config.hStream = api.CUstream(stream)
        attributes = []
        if shape.cluster:
            cluster = api.CUlaunchAttribute()
            cluster.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            dims = cluster.value.clusterDim
            dims.x, dims.y, dims.z = (*shape.cluster, 1, 1)[:3]
            attributes.append(cluster)
        if shape.cooperative:
            cooperative = api.CUlaunchAttribute()
            cooperative.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            cooperative.value.cooperative = 1
            attributes.append(cooperative)
        config.attrs = attributes
        config.numAttrs = len(attributes)
        return config

    # Memory and streams

    def pointer_device(self, address: int) -> int | None:
        """Ordinal of the device that an address belongs to; None for an address that the driver does not know."""
        name = self._api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        result, *values = self._api.cuPointerGetAttribute(name, address)
        return int(values[0]) if result == self._success else None

    def allocate(self, ordinal: int, size: int, stream: int | None) -> int:
        """Device memory, in stream order where a stream is given."""
        with self.current(ordinal):
            return int(self._ask("cuMemAlloc", size) if stream is None else self._ask("cuMemAllocAsync", size, stream))

    def free(self, ordinal: int, address: int, stream: int | None) -> None:
        """Give memory back, in stream order where a stream is given."""
        with self.current(ordinal):
            if stream is None:
                self._ask("cuMemFree", address)
            else:
                self._ask("cuMemFreeAsync", address, stream)

    def copy_in(self, ordinal: int, address: int, source: int, size: int, stream: int) -> None:
        """Copy host memory (address `source`) to the device and wait for it."""
        with self.current(ordinal):
            self._ask("cuMemcpyHtoDAsync", address, source, size, stream)
            self._ask("cuStreamSynchronize", stream)

    def copy_out(self, ordinal: int, target: int, address: int, size: int, stream: int) -> None:
        """Copy device memory to host memory (address `target`) and wait for it."""
        with self.current(ordinal):
            self._ask("cuMemcpyDtoHAsync", target, address, size, stream)
            self._ask("cuStreamSynchronize", stream)

    def fill(self, ordinal: int, address: int, byte: int, size: int, stream: int) -> None:
        """Set every byte of device memory, in stream order."""
        with self.current(ordinal):
            self._ask("cuMemsetD8Async", address, byte, size, stream)

    def create_stream(self, ordinal: int) -> int:
        """A stream that does not wait for the legacy default stream."""
        with self.current(ordinal):
            return int(self._ask("cuStreamCreate", self._api.CUstream_flags.CU_STREAM_NON_BLOCKING.value))

    def destroy_stream(self, ordinal: int, stream: int) -> None:
        """Give a stream back; work on it still finishes."""
        with self.current(ordinal):
            self._ask("cuStreamDestroy", stream)

    def synchronize(self, ordinal: int, stream: int) -> None:
        """Wait for everything on a stream."""
        with self.current(ordinal):
            self._ask("cuStreamSynchronize", stream)

    # Events

    def create_event(self, ordinal: int) -> int:
        """A mark that can be set in streams."""
        with self.current(ordinal):
            return int(self._ask("cuEventCreate", self._api.CUevent_flags.CU_EVENT_DEFAULT.value))

    def destroy_event(self, ordinal: int, event: int) -> None:
        """Give an event back; streams that wait for it still do."""
        with self.current(ordinal):
            self._ask("cuEventDestroy", event)

    def record_event(self, ordinal: int, event: int, stream: int) -> None:
        """Set the mark behind what a stream has to do; it was elsewhere before."""
        with self.current(ordinal):
            self._ask("cuEventRecord", event, stream)

    def wait_event(self, ordinal: int, stream: int, event: int) -> None:
        """Let what a stream is given from now on wait until the mark is reached; one that was never set is."""
        with self.current(ordinal):
            self._ask("cuStreamWaitEvent", stream, event, 0)

    def event_reached(self, ordinal: int, event: int) -> bool:
        """Whether everything before the mark is done."""
        with self.current(ordinal):
            result = self._api.cuEventQuery(event)[0]
        if int(result) == _NOT_READY:
            return False
        if result != self._success:
            raise self._error("cuEventQuery", result)
        return True

    def synchronize_event(self, ordinal: int, event: int) -> None:
        """Wait until the mark is reached."""
        with self.current(ordinal):
            self._ask("cuEventSynchronize", event)

    def elapsed(self, ordinal: int, start: int, end: int) -> float:
        """Seconds between two marks that were reached."""
        with self.current(ordinal):
            return float(self._ask("cuEventElapsedTime", start, end)) / 1e3

    # Results

    def _ask(self, call: str, *arguments: Any) -> Any:
        """Make one driver call; its value, or its failure as an error."""
        result, *values = getattr(self._api, call)(*arguments)
        if result != self._success:
            raise self._error(call, result)
        return values[0] if values else None

    def _error(self, call: str, result: Any, *, kernel: str = "") -> DriverError:
        name = _result_name(result)
        text = self._api.cuGetErrorString(result)[1]
        words = text.decode("utf-8", "replace") if isinstance(text, bytes) else ""
        cause, fix = ADVICE.get(name, ("", ""))
        subject = f"{kernel}: " if kernel else ""
        what = f"{subject}{call} failed: {name}" + (f" ({words})" if words else "")
        return DriverError(what, result=name, code=int(result), cause=cause, fix=fix, kernel=kernel)

    def _no_device(self, call: str, result: Any) -> NoDeviceError | DriverError:
        name = _result_name(result)
        if name not in NO_DEVICE:
            return self._error(call, result)
        cause, fix = ADVICE.get(name, ("the driver library is a stub, or the device is in use by another process", "look at nvidia-smi"))
        return NoDeviceError(f"no NVIDIA GPU can be used: {call} gave {name}", cause=cause, fix=fix)


def _result_name(result: Any) -> str:
    return getattr(result, "name", "") or f"CUDA result {int(result)}"


def _no_driver(error: BaseException) -> NoDeviceError:
    return NoDeviceError(
        f"the CUDA driver (libcuda) cannot be loaded: {error}",
        cause="no NVIDIA driver is installed on this machine, or this container was started without its GPU",
        fix="install the NVIDIA driver, or start the container with its GPU (--gpus all); building and inspecting need no driver",
    )
