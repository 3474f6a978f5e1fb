"""A double of libcuda, for tests of the CUDA driver."""

from __future__ import annotations

import threading

from cuda.bindings import driver as real

from tilec_runtime.device.libcuda import CALLS
from tilec_runtime.device.seam import LaunchParts, LaunchShape

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
