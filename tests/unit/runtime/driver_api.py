"""A double of cuda.bindings.driver, for tests of the seam to the CUDA driver."""

from __future__ import annotations

import ctypes
import threading

from cuda.bindings import driver as real

from tilec_runtime.device.seam import LaunchParts, LaunchShape

OK = real.CUresult.CUDA_SUCCESS
CONTEXTS = {0: 0x100, 1: 0x200}
SHAPE = LaunchShape(grid=(4, 2, 1), block=(32, 1, 1), shared=64)
PARTS = LaunchParts(kernel="k", sizes=(), addresses=(), tensors=())


# cuPointerGetAttribute in the driver: of (pointer to the value, attribute, address).
_Attribute = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.c_int, ctypes.c_uint64
)


class Api:
    """cuda.bindings.driver with its calls replaced: each gives what `results` says, or success;
    types and enums are the real ones.

    Attributes:
        ordinals: of the devices that addresses belong to, as the driver says; the bindings say 0 of
            all of them.
    """

    def __init__(self, devices: int = 1, **results: str) -> None:
        self.results = {
            name: getattr(real.CUresult, f"CUDA_ERROR_{result}") for name, result in results.items()
        }
        self.values = {
            "cuDeviceGetCount": devices,
            "cuDriverGetVersion": 13000,
            "cuDeviceGetName": b"GPU\0\0",
            "cuFuncGetAttribute": 0,
        }
        self.ordinals: dict[int, int] = {}
        self._attribute = _Attribute(self._ordinal)
        self.values["cuGetProcAddress"] = ctypes.cast(self._attribute, ctypes.c_void_p).value or 0
        self.calls: list[tuple[object, ...]] = []
        self._made_in: list[tuple[str, int]] = []
        self.thread = threading.local()

    def __getattr__(self, name: str):
        if not (name.startswith("cu") and name[2].isupper()):
            return getattr(real, name)

        def call(*arguments: object):
            self.calls.append((name, *arguments))
            self._made_in.append((name, self.current))
            if name in self.results:
                return (self.results[name], None)
            return (OK, self.value(name, arguments))

        return call

    def value(self, name: str, arguments: tuple[object, ...]):
        stack = self.thread.__dict__.setdefault("stack", [0])
        match name:
            case "cuDeviceGet":
                return arguments[0]
            case "cuDevicePrimaryCtxRetain":
                return real.CUcontext(CONTEXTS[int(arguments[0])])
            case "cuCtxPushCurrent":
                stack.append(int(arguments[0]))
            case "cuCtxPopCurrent":
                return stack.pop()
            case "cuCtxSetCurrent":
                stack[-1] = int(arguments[0])
            case "cuCtxGetCurrent":
                return real.CUcontext(stack[-1])
            case "cuCtxGetDevice":
                return {context: ordinal for ordinal, context in CONTEXTS.items()}[stack[-1]]
            case "cuGetErrorString":
                return b"words of the driver"
            case "cuDeviceGetAttribute":
                return {
                    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": 9,
                    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": 0,
                }.get(arguments[0].name, 7)
        return self.values.get(name, 0)

    def _ordinal(self, value, attribute: int, address: int) -> int:
        assert attribute == real.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        value[0] = self.ordinals.get(address, 0)
        return 0

    @property
    def current(self) -> int:
        return self.thread.__dict__.setdefault("stack", [0])[-1]

    def made(self, name: str) -> list[tuple[object, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]

    def contexts(self, name: str) -> list[int]:
        """The context that was current at each of these calls."""
        return [context for call, context in self._made_in if call == name]
