"""The calls of the CUDA driver through ctypes, without a dependency."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import (
    Structure,
    Union,
    c_char,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint,
    c_uint64,
    c_void_p,
)
from typing import Any

# Parameter types of each call. A type in a list is that of a value returned through a pointer.
CALLS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": ([c_int],),
    "cuGetErrorName": (c_int, [c_char_p]),
    "cuGetErrorString": (c_int, [c_char_p]),
    # Devices and contexts
    "cuDeviceGetCount": ([c_int],),
    "cuDeviceGet": ([c_int], c_int),
    "cuDeviceGetName": ([c_char * 256], c_int, c_int),
    "cuDeviceGetAttribute": ([c_int], c_int, c_int),
    "cuDevicePrimaryCtxRetain": ([c_void_p], c_int),
    "cuDevicePrimaryCtxGetState": (c_int, [c_uint], [c_int]),
    "cuCtxGetCurrent": ([c_void_p],),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxPushCurrent": (c_void_p,),
    "cuCtxPopCurrent": ([c_void_p],),
    "cuCtxGetDevice": ([c_int],),
    "cuCtxSynchronize": (),
    # Images and launches
    "cuModuleLoadData": ([c_void_p], c_char_p),
    "cuModuleGetFunction": ([c_void_p], c_void_p, c_char_p),
    "cuFuncGetAttribute": ([c_int], c_int, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": ([c_int], c_void_p, c_int, c_size_t),
    "cuOccupancyMaxActiveClusters": ([c_int], c_void_p, c_void_p),
    "cuOccupancyMaxPotentialClusterSize": ([c_int], c_void_p, c_void_p),
    "cuTensorMapEncodeTiled": (
        *(c_void_p, c_int, c_uint, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p),
        *(c_int, c_int, c_int, c_int),
    ),
    "cuLaunchKernelEx": (c_void_p, c_void_p, c_void_p, c_void_p),
    # Memory and copies
    "cuPointerGetAttribute": ([c_uint64], c_int, c_uint64),
    "cuMemAlloc": ([c_uint64], c_size_t),
    "cuMemFree": (c_uint64,),
    "cuMemAllocFromPoolAsync": ([c_uint64], c_size_t, c_void_p, c_void_p),
    "cuMemFreeAsync": (c_uint64, c_void_p),
    "cuMemHostAlloc": ([c_void_p], c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemGetInfo": ([c_size_t], [c_size_t]),
    "cuMemcpyAsync": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemcpyHtoDAsync": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuMemcpy3DAsync": (c_void_p, c_void_p),
    "cuMemsetD8Async": (c_uint64, c_ubyte, c_size_t, c_void_p),
    "cuMemPoolCreate": ([c_void_p], c_void_p),
    "cuMemPoolDestroy": (c_void_p,),
    "cuMemPoolGetAttribute": (c_void_p, c_int, [c_uint64]),
    "cuMemPoolSetAttribute": (c_void_p, c_int, c_void_p),
    "cuMemPoolTrimTo": (c_void_p, c_size_t),
    # Streams and events
    "cuStreamCreate": ([c_void_p], c_uint),
    "cuStreamDestroy": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuStreamGetCtx": (c_void_p, [c_void_p]),
    "cuEventCreate": ([c_void_p], c_uint),
    "cuEventDestroy": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventQuery": (c_void_p,),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": ([c_float], c_void_p, c_void_p),
    # Captures and graphs
    "cuStreamBeginCapture": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, [c_void_p]),
    "cuStreamIsCapturing": (c_void_p, [c_int]),
    "cuThreadExchangeStreamCaptureMode": (c_void_p,),
    "cuGraphInstantiate": ([c_void_p], c_void_p, c_uint64),
    "cuGraphUpload": (c_void_p, c_void_p),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphGetNodes": (c_void_p, c_void_p, [c_size_t]),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphExecDestroy": (c_void_p,),
}
# Symbols of the library whose names differ from those in cuda.h.
SYMBOLS = {
    "cuCtxPopCurrent": "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent": "cuCtxPushCurrent_v2",
    "cuEventDestroy": "cuEventDestroy_v2",
    "cuGraphInstantiate": "cuGraphInstantiateWithFlags",
    "cuMemAlloc": "cuMemAlloc_v2",
    "cuMemFree": "cuMemFree_v2",
    "cuMemGetInfo": "cuMemGetInfo_v2",
    "cuMemcpy3DAsync": "cuMemcpy3DAsync_v2",
    "cuMemcpyDtoHAsync": "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync": "cuMemcpyHtoDAsync_v2",
    "cuStreamBeginCapture": "cuStreamBeginCapture_v2",
    "cuStreamDestroy": "cuStreamDestroy_v2",
}
_NOT_SUPPORTED = 801


class Libcuda:
    """The library. Each call returns (result, values…), with 0 for success.

    A null handle is 0.
    """

    def __init__(self, library: Any = None) -> None:
        """Open libcuda; tests pass a `library` instead.

        Raises:
            OSError: libcuda cannot be loaded.
        """
        self.library = library or ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        """Look up a call at its first use, because older drivers lack some."""
        takes = CALLS.get(name)
        if takes is None:
            raise AttributeError(name)
        function = getattr(self.library, SYMBOLS.get(name, name), None)
        call = _call(function, takes) if function is not None else lambda *_: (_NOT_SUPPORTED,)
        setattr(self, name, call)
        return call


def _call(function: Any, takes: tuple[Any, ...]) -> Callable[..., tuple[Any, ...]]:
    gives = {position: kind[0] for position, kind in enumerate(takes) if isinstance(kind, list)}
    function.argtypes = [c_void_p if isinstance(kind, list) else kind for kind in takes]
    function.restype = c_int
    if not gives:
        return lambda *arguments: (function(*arguments),)
    if list(gives) == [0]:  # a faster form: it includes cuCtxGetCurrent, which precedes most calls
        kind = gives[0]

        def ask(*arguments: Any) -> tuple[Any, ...]:
            value = kind()
            return function(ctypes.byref(value), *arguments), value.value or 0

        return ask

    def call(*arguments: Any) -> tuple[Any, ...]:
        values = [kind() for kind in gives.values()]
        passed = list(arguments)
        for position, value in zip(gives, values, strict=True):
            passed.insert(position, ctypes.byref(value))
        return (function(*passed), *[value.value or 0 for value in values])

    return call


class _Cluster(Structure):
    _fields_ = (("x", c_uint), ("y", c_uint), ("z", c_uint))


class _AttributeValue(Union):
    _fields_ = (("number", c_int), ("cluster", _Cluster), ("room", c_uint64 * 8))


class LaunchAttribute(Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", c_int), ("value", _AttributeValue))


class LaunchConfig(Structure):
    """CUlaunchConfig."""

    _fields_ = (
        *((f"grid{axis}", c_uint) for axis in "XYZ"),
        *((f"block{axis}", c_uint) for axis in "XYZ"),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("count", c_uint),
    )


class _CopyEnd(Structure):
    _fields_ = (
        *((name, c_size_t) for name in ("x", "y", "z", "lod")),
        ("kind", c_int),
        ("host", c_void_p),
        ("device", c_uint64),
        ("array", c_void_p),
        ("reserved", c_void_p),
        ("pitch", c_size_t),
        ("height", c_size_t),
    )


class Copy3D(Structure):
    """CUDA_MEMCPY3D."""

    _fields_ = (
        ("source", _CopyEnd),
        ("target", _CopyEnd),
        *((name, c_size_t) for name in ("width", "height", "depth")),
    )


class PoolProperties(Structure):
    """CUmemPoolProps."""

    _fields_ = (
        *((name, c_int) for name in ("allocation", "handles", "location", "ordinal")),
        ("security", c_void_p),
        ("most", c_size_t),
        ("usage", ctypes.c_ushort),
        ("reserved", c_ubyte * 54),
    )
