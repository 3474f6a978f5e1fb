"""The calls of the CUDA driver that a first launch makes, through ctypes: importing cuda.bindings
takes longer than all of them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_uint, c_void_p
from typing import Any, ClassVar

from tilec_runtime.errors import NoDeviceError

Call = tuple[tuple[Any, ...], Any]
# What each call takes, and what it gives through its first parameter (None: nothing); where its
# symbol has another name, that.
_CALLS: dict[str, Call] = {
    "cuInit": ((c_uint,), None),
    "cuDriverGetVersion": ((), c_int),
    "cuDeviceGetCount": ((), c_int),
    "cuDeviceGet": ((c_int,), c_int),
    "cuDeviceGetAttribute": ((c_int, c_int), c_int),
    "cuDevicePrimaryCtxRetain": ((c_int,), c_void_p),
    "cuCtxGetCurrent": ((), c_void_p),
    "cuCtxSetCurrent": ((c_void_p,), None),
    "cuCtxPushCurrent": ((c_void_p,), None),
    "cuCtxPopCurrent": ((), c_void_p),
    "cuModuleLoadData": ((c_char_p,), c_void_p),
    "cuModuleGetFunction": ((c_void_p, c_char_p), c_void_p),
    "cuFuncGetAttribute": ((c_int, c_void_p), c_int),
    "cuFuncSetAttribute": ((c_void_p, c_int, c_int), None),
}
_SYMBOLS = {"cuCtxPushCurrent": "cuCtxPushCurrent_v2", "cuCtxPopCurrent": "cuCtxPopCurrent_v2"}


class _Names:
    """Numbers of an enumeration by name, of those that a first launch needs; the bindings have all
    others.
    """

    def __init__(self, enumeration: str, **numbers: int) -> None:
        self.__dict__.update(numbers)
        self._enumeration = enumeration

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(bindings(), self._enumeration), name)


class Libcuda:
    """Stands for `cuda.bindings.driver`: calls give (result, value). What is not here comes from
    the bindings, when it is first needed.
    """

    CUdevice_attribute = _Names(
        "CUdevice_attribute",
        CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK=1,
        CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X=2,
        CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y=3,
        CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z=4,
        CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X=5,
        CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y=6,
        CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z=7,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK=8,
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=16,
        CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE=38,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=75,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=76,
        CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH=95,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=97,
        CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH=120,
    )
    CUfunction_attribute = _Names(
        "CUfunction_attribute",
        CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK=0,
        CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES=1,
        CU_FUNC_ATTRIBUTE_NUM_REGS=4,
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH=11,
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT=12,
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH=13,
        CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED=14,
    )

    CUstreamCaptureMode = _Names("CUstreamCaptureMode", CU_STREAM_CAPTURE_MODE_RELAXED=2)
    calls: ClassVar[dict[str, Call]] = _CALLS

    def __init__(self, library: Any = None) -> None:
        """Open libcuda; `library` stands for it in tests.

        Raises:
            OSError: there is none.
        """
        self.library = library = library or ctypes.CDLL("libcuda.so.1")
        for name, (takes, gives) in self.calls.items():
            function = getattr(library, _SYMBOLS.get(name, name))
            setattr(self, name, _call(function, takes, gives, self._result))
        self._name_of = _entry(library.cuDeviceGetName, (c_char_p, c_int, c_int))
        self._is_capturing = _entry(library.cuStreamIsCapturing, (c_void_p, c_void_p))
        self._exchange_mode = _entry(library.cuThreadExchangeStreamCaptureMode, (c_void_p,))

    def cuDeviceGetName(self, size: int, device: int) -> tuple[Any, bytes]:  # noqa: N802 - the driver's name
        """The name of a device."""
        name = ctypes.create_string_buffer(size)
        return self._result(self._name_of(name, size, device)), name.raw

    def cuStreamIsCapturing(self, stream: int) -> tuple[Any, int]:  # noqa: N802 - the driver's name
        """The status of a stream's capture."""
        status = c_int()
        return self._result(self._is_capturing(stream, ctypes.byref(status))), status.value

    def _result(self, result: int) -> Any:
        """A result: 0 for success; another by the bindings' name, and as a number where they do not
        know it.
        """
        if not result:
            return 0
        try:
            return bindings().CUresult(result)
        except ValueError:
            return result

    def cuThreadExchangeStreamCaptureMode(self, mode: int) -> tuple[Any, int]:  # noqa: N802 - the driver's name
        """The mode of captures that this thread had before."""
        before = c_int(mode)
        return self._result(self._exchange_mode(ctypes.byref(before))), before.value

    def __getattr__(self, name: str) -> Any:
        """The call or enumeration of the bindings."""
        value = getattr(bindings(), name)
        setattr(self, name, value)
        return value


def bindings() -> Any:
    """The module `cuda.bindings.driver`.

    Raises:
        NoDeviceError: cuda-bindings is not installed.
    """
    try:
        from cuda.bindings import driver
    except ImportError as error:
        what = f"the package cuda-bindings cannot be imported: {error}"
        raise NoDeviceError(
            what, fix="install it: pip install 'cuda-bindings>=13.0,<14'"
        ) from error
    return driver


class _Handle(c_void_p):
    """A handle that is passed: an int, or an object of the bindings that is one."""

    @classmethod
    def from_param(cls, value: Any) -> Any:
        """The address."""
        return c_void_p(int(value))


def _entry(function: Any, takes: tuple[Any, ...]) -> Any:
    function.argtypes, function.restype = takes, c_int
    return function


def _call(function: Any, takes: tuple[Any, ...], gives: Any, named: Callable[[int], Any]) -> Any:
    """A call by the bindings' convention; `named` makes a result of a number."""
    takes = tuple(_Handle if kind is c_void_p else kind for kind in takes)
    if gives is None:
        plain = _entry(function, takes)
        return lambda *arguments: (named(plain(*arguments)),)
    giving = _entry(function, (c_void_p, *takes))

    def call(*arguments: Any) -> tuple[Any, int]:
        value = gives()
        result = giving(ctypes.byref(value), *arguments)
        return named(result), value.value or 0

    return call
