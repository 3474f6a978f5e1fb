"""A double of libcuda, for tests of the CUDA driver."""

from __future__ import annotations

import threading
from collections.abc import Callable

from cuda.bindings import driver as real

from tilec_runtime.device.driver import Driver
from tilec_runtime.device.libcuda import CALLS
from tilec_runtime.device.seam import CopyKind, LaunchParts, LaunchShape

OK = 0
CONTEXTS = {0: 0x100, 1: 0x200}
SHAPE = LaunchShape(grid=(4, 2, 1), block=(32, 1, 1), shared=64)
PARTS = LaunchParts(kernel="k", sizes=(), addresses=(), tensors=())


class Api:
    """A double of `Libcuda`: each call gives what `results` and `values` say, or success."""

    def __init__(self, devices: int = 1, **results: str) -> None:
        self.results = {
            name: int(getattr(real.CUresult, f"CUDA_ERROR_{result}"))
            for name, result in results.items()
        }
        self.values: dict[str, object] = {
            "cuDeviceGetCount": devices,
            "cuDriverGetVersion": 13000,
            "cuDeviceGetName": b"GPU",
        }
        self.calls: list[tuple[object, ...]] = []
        self._made_in: list[tuple[str, int]] = []
        self.thread = threading.local()

    def __getattr__(self, name: str):
        gives = sum(isinstance(kind, list) for kind in CALLS[name])

        def call(*arguments: object):
            self.calls.append((name, *arguments))
            self._made_in.append((name, self.current))
            result = self.results.get(name, 0)
            value = None if result else self.value(name, arguments)
            return (result, *[value] * gives)

        return call

    def cuGetErrorName(self, result: int):  # noqa: N802 - the driver's name
        known = {int(one): one.name.encode() for one in real.CUresult}
        return 0, known.get(result, 0)

    def value(self, name: str, arguments: tuple[object, ...]):
        stack = self.thread.__dict__.setdefault("stack", [0])
        match name:
            case "cuDeviceGet":
                return arguments[0]
            case "cuDevicePrimaryCtxRetain":
                return CONTEXTS[arguments[0]]
            case "cuCtxPushCurrent":
                stack.append(arguments[0])
            case "cuCtxPopCurrent":
                return stack.pop()
            case "cuCtxSetCurrent":
                stack[-1] = arguments[0]
            case "cuCtxGetCurrent":
                return stack[-1]
            case "cuCtxGetDevice":
                return {context: ordinal for ordinal, context in CONTEXTS.items()}[stack[-1]]
            case "cuGetErrorString":
                return b"words of the driver"
            case "cuDeviceGetAttribute":
                return {75: 9, 76: 0}.get(arguments[0], 7)
        return self.values.get(name, 0)

    @property
    def current(self) -> int:
        return self.thread.__dict__.setdefault("stack", [0])[-1]

    def made(self, name: str) -> list[tuple[object, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]

    def contexts(self, name: str) -> list[int]:
        """The context that was current at each of these calls."""
        return [context for call, context in self._made_in if call == name]


Method = Callable[[Driver], object]
# Methods of the driver, each with the call of libcuda that it makes.
METHODS: list[tuple[Method, str, tuple[object, ...]]] = [
    (lambda d: d.free(0, 0x10, 0x77), "cuMemFreeAsync", (0x10, 0x77)),
    (lambda d: d.allocate(0, 64, 0x77), "cuMemAllocFromPoolAsync", (64, 0, 0x77)),
    # portable: every context may copy from it
    (lambda d: d.allocate_pinned(0, 64), "cuMemHostAlloc", (64, 1)),
    (lambda d: d.memory_info(0), "cuMemGetInfo", ()),
    (lambda d: d.copy_async(0, 1, 2, 3, 7, CopyKind.TO_DEVICE), "cuMemcpyHtoDAsync", (1, 2, 3, 7)),
    (lambda d: d.copy_async(0, 1, 2, 3, 7, CopyKind.TO_HOST), "cuMemcpyDtoHAsync", (1, 2, 3, 7)),
    (lambda d: d.copy_async(0, 1, 2, 3, 7, CopyKind.ON_DEVICE), "cuMemcpyAsync", (1, 2, 3, 7)),
    (lambda d: d.copy_in(0, 1, 2, 3, 7), "cuMemcpyHtoDAsync", (1, 2, 3, 7)),
    (lambda d: d.copy_out(0, 1, 2, 3, 7), "cuStreamSynchronize", (7,)),
    (lambda d: d.fill(0, 1, 0, 3, 7), "cuMemsetD8Async", (1, 0, 3, 7)),
    (lambda d: d.trim_pool(0, 1, 5), "cuMemPoolTrimTo", (1, 5)),
    (lambda d: d.create_stream(0), "cuStreamCreate", (1,)),
    (lambda d: d.synchronize(0, 7), "cuStreamSynchronize", (7,)),
    (lambda d: d.synchronize_device(0), "cuCtxSynchronize", ()),
    (lambda d: d.create_event(0), "cuEventCreate", (0,)),
    (lambda d: d.create_event(0, timed=False), "cuEventCreate", (2,)),
    (lambda d: d.create_event(0, timed=False, blocking=True), "cuEventCreate", (3,)),
    (lambda d: d.record_event(0, 1, 7), "cuEventRecord", (1, 7)),
    (lambda d: d.wait_event(0, 7, 1), "cuStreamWaitEvent", (7, 1, 0)),
    (lambda d: d.event_reached(0, 1), "cuEventQuery", (1,)),
    (lambda d: d.synchronize_event(0, 1), "cuEventSynchronize", (1,)),
    (lambda d: d.elapsed(0, 1, 2), "cuEventElapsedTime", (1, 2)),
    (lambda d: d.load_module(0, b"image"), "cuModuleLoadData", (b"image\0",)),
    (
        lambda d: d.active_blocks(0, "f", 32, 0),
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        ("f", 32, 0),
    ),
    (lambda d: d.begin_capture(0, 7), "cuStreamBeginCapture", (7, 2)),  # relaxed
    (lambda d: d.end_capture(0, 7), "cuStreamEndCapture", (7,)),
    (lambda d: d.instantiate_graph(0, "graph"), "cuGraphInstantiate", ("graph", 0)),
    (lambda d: d.upload_graph(0, "executable", 7), "cuGraphUpload", ("executable", 7)),
    (lambda d: d.launch_graph(0, "executable", 7), "cuGraphLaunch", ("executable", 7)),
]
# What gives back is silent once the context is lost.
GIVING_BACK: list[tuple[Method, str, tuple[object, ...]]] = [
    (lambda d: d.free_pinned(0, 0x50), "cuMemFreeHost", (0x50,)),
    (lambda d: d.destroy_event(0, 1), "cuEventDestroy", (1,)),
    (lambda d: d.destroy_stream(0, 7), "cuStreamDestroy", (7,)),
    (lambda d: d.destroy_graph(0, "graph"), "cuGraphDestroy", ("graph",)),
    (lambda d: d.destroy_executable(0, "executable"), "cuGraphExecDestroy", ("executable",)),
    (lambda d: d.destroy_pool(0, 0x60), "cuMemPoolDestroy", (0x60,)),
]
