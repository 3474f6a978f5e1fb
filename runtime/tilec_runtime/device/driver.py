"""The CUDA driver: results become typed errors with cause and fix here. A first launch calls
libcuda itself, all else cuda.bindings.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilec_runtime.device.core import CORE
from tilec_runtime.device.driver_calls import is_final, no_driver
from tilec_runtime.device.driver_graphs import GraphCalls
from tilec_runtime.device.libcuda import Libcuda
from tilec_runtime.device.seam_types import (
    DeviceInfo,
    Dim3,
    ExecutableHandle,
    FunctionFacts,
    FunctionHandle,
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

_PORTABLE_CLUSTER = 8
_INVALID_CONTEXT = 201
_INVALID_HANDLE = 400


@Once
def driver() -> Driver:
    """The process's driver, started at the first call.

    Raises:
        NoDeviceError: there is no driver or no GPU.
    """
    try:
        api = Libcuda()
    except OSError as error:
        raise no_driver(error) from error
    return Driver(api)


class Driver(GraphCalls):
    """`DeviceDriver` on cuda.bindings. All contexts are the devices' primary ones, which torch and
    CuPy share.
    """

    holds_arguments = False  # streams of CUDA outlive no tensor by themselves: that is the caller's care, as with every other launch

    # Devices

    def version(self) -> Version:
        """CUDA release that the driver serves."""
        number = int(self._ask("cuDriverGetVersion"))
        return number // 1000, number % 1000 // 10

    def device_count(self) -> int:
        """Number of visible devices."""
        return self._count

    def device(self, ordinal: int) -> DeviceInfo:
        """Facts about one device; asking for them makes no context."""
        handle = self._handle(ordinal)
        names = self._api.CUdevice_attribute

        def fact(name: str) -> int:
            return int(
                self._ask(
                    "cuDeviceGetAttribute", getattr(names, f"CU_DEVICE_ATTRIBUTE_{name}"), handle
                )
            )

        def axes(name: str) -> Dim3:
            return fact(f"MAX_{name}_DIM_X"), fact(f"MAX_{name}_DIM_Y"), fact(f"MAX_{name}_DIM_Z")

        raw = self._ask("cuDeviceGetName", 256, handle)
        return DeviceInfo(
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
            l2=fact("L2_CACHE_SIZE"),
        )

    # Images

    def load_module(self, ordinal: int, data: bytes) -> ModuleHandle:
        """Load an image into the device's primary context."""
        # The driver reads PTX up to a zero byte, which a Python bytes object ends with but a view
        # of a file may not.
        with self.current(ordinal):
            return self._ask("cuModuleLoadData", data + b"\0")

    def function(self, module: ModuleHandle, symbol: str) -> FunctionHandle:
        """Look up an entry point."""
        return self._ask("cuModuleGetFunction", module, symbol.encode())

    def function_facts(self, function: FunctionHandle) -> FunctionFacts:
        """Resources of an entry point."""
        names = self._api.CUfunction_attribute

        def fact(name: str) -> int:
            return int(
                self._ask(
                    "cuFuncGetAttribute", getattr(names, f"CU_FUNC_ATTRIBUTE_{name}"), function
                )
            )

        cluster = (
            tuple(fact(f"REQUIRED_CLUSTER_{axis}") for axis in ("WIDTH", "HEIGHT", "DEPTH"))
            if fact("REQUIRED_CLUSTER_WIDTH")
            else ()
        )
        return FunctionFacts(
            max_threads=fact("MAX_THREADS_PER_BLOCK"),
            static_shared=fact("SHARED_SIZE_BYTES"),
            registers=fact("NUM_REGS"),
            cluster=cluster,
        )

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
        api = self._api
        widths = [
            api.cuuint64_t(extent) for extent in reversed(shape)
        ]  # CUDA counts dimensions from the innermost one
        pitches = [api.cuuint64_t(stride) for stride in reversed(strides[:-1])]
        box = [api.cuuint32_t(extent) for extent in reversed(wanted.box)]
        with self.current(ordinal):  # the first launch of a thread may find none
            encoded = self._ask(
                "cuTensorMapEncodeTiled",
                api.CUtensorMapDataType(wanted.element),
                len(shape),
                address,
                widths,
                pitches,
                box,
                [api.cuuint32_t(1)] * len(shape),
                api.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
                api.CUtensorMapSwizzle(wanted.swizzle),
                api.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                api.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        return ctypes.string_at(encoded.getPtr(), 128)  # of every tensor map

    def active_blocks(
        self, ordinal: int, function: FunctionHandle, threads: int, shared: int
    ) -> int:
        """Blocks of a launch that are resident on one multiprocessor at a time."""
        with self.current(ordinal):
            return int(
                self._ask("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads, shared)
            )

    def active_clusters(self, ordinal: int, function: FunctionHandle, shape: LaunchShape) -> int:
        """Clusters of a launch that are resident on the device at a time."""
        with self.current(ordinal):
            return int(self._ask("cuOccupancyMaxActiveClusters", function, self._config(shape, 0)))

    def widest_cluster(self, ordinal: int, function: FunctionHandle, shape: LaunchShape) -> int:
        """The most blocks that a cluster of such a launch can have, whatever cluster it says."""
        plain = LaunchShape(grid=shape.grid, block=shape.block, shared=shape.shared)
        with self.current(ordinal):
            return int(
                self._ask("cuOccupancyMaxPotentialClusterSize", function, self._config(plain, 0))
            )

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
        self._losses.suspect(ordinal, parts.kernel, shape, stream)
        context = self._context(ordinal)
        expected = int(context)
        # The legacy default stream is the current context's: where there are several, the thread's
        # is looked at each time.
        alone = self._count == 1 and int(self._ask("cuCtxGetCurrent")) in (0, expected)

        @functools.cache  # made at the first launch that is not the launch core's: it takes the bindings
        def bound() -> LaunchCall:
            return functools.partial(
                self._api.cuLaunchKernelEx, self._config(shape, stream), function
            )

        def launch_here(parameters: int, extra: int) -> Any:
            if alone or int(self._api.cuCtxGetCurrent()[1]) == expected:
                return bound()(parameters, extra)
            pushed = self._api.cuCtxPushCurrent(context)
            if pushed[0]:
                return pushed
            try:
                return bound()(parameters, extra)
            finally:
                self._api.cuCtxPopCurrent()

        return launch_here

    def launch_target(self, ordinal: int) -> int | None:
        """The number of the device's context. The launch core calls the driver itself, so a double
        of the bindings is not for it.
        """
        return int(self._context(ordinal)) if isinstance(self._api, Libcuda) else None

    def launch_graph(self, ordinal: int, executable: ExecutableHandle, stream: int) -> None:
        """Do what the graph says, in stream order, and behind its launches before."""
        target = self.launch_target(ordinal)
        if CORE is None or target is None:
            if self.capturing(ordinal, stream):
                raise self._error(
                    "cuGraphLaunch",
                    self._api.CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                    ordinal=ordinal,
                )
            with self.current(ordinal):
                self._ask("cuGraphLaunch", executable, stream)
        elif result := CORE.launch_graph(
            target, ordinal == 0, executable, stream
        ):  # device 0: see `adopt`
            raise self._error("cuGraphLaunch", self._known_result(result), ordinal=ordinal)

    def launch_failed(
        self, ordinal: int, result: Any, stream: int, retry: Callable[[], Any], kernel: str
    ) -> None:
        """Deal with a launch that failed: where only the thread's context was wrong, `retry` under
        the right one; raise otherwise.
        """
        code, result = int(result), self._known_result(result)
        if is_final(result):
            raise self._error("the launch", result, kernel=kernel, ordinal=ordinal)
        context = self._context(ordinal)
        if code in (_INVALID_CONTEXT, _INVALID_HANDLE):
            current = int(self._ask("cuCtxGetCurrent"))
            if current == 0:  # a new thread
                self.adopt(ordinal)
            if current != int(context):
                with self.current(ordinal):
                    result = retry()
            if int(result) == 0:
                return
        owner = self._stream_device(ordinal, stream) if int(result) == _INVALID_HANDLE else None
        if owner is not None and owner != ordinal:
            what = f"{kernel}: the kernel is loaded on device {ordinal}, the stream is on device {owner}"
            raise DriverError(
                what,
                result="CUDA_ERROR_INVALID_HANDLE",
                code=_INVALID_HANDLE,
                fix="pass a stream of that device",
                kernel=kernel,
                device=ordinal,
            )
        raise self._error("the launch", result, kernel=kernel, ordinal=ordinal)

    def _known_result(self, result: Any) -> Any:
        """A result by the bindings' name; the number where they do not know it."""
        try:
            return self._api.CUresult(int(result))
        except ValueError:
            return result

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
        if extents := shape.cluster_dim:
            cluster = api.CUlaunchAttribute()
            cluster.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            dims = cluster.value.clusterDim
            dims.x, dims.y, dims.z = extents
            attributes.append(cluster)
        if shape.cooperative:
            cooperative = api.CUlaunchAttribute()
            cooperative.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            cooperative.value.cooperative = 1
            attributes.append(cooperative)
        if shape.programmatic:
            early = api.CUlaunchAttribute()
            early.id = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            early.value.programmaticStreamSerializationAllowed = 1
            attributes.append(early)
        config.attrs = attributes
        config.numAttrs = len(attributes)
        return config
