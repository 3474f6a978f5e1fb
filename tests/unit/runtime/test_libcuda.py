"""The calls of libcuda that a first launch makes, on a library of C functions: they give what the
bindings give.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import pytest
from cuda.bindings import driver as real

from tilec_runtime.device.driver import Driver
from tilec_runtime.device.driver import driver as process_driver
from tilec_runtime.device.libcuda import _CALLS, Libcuda, _Handle
from tilec_runtime.errors import DriverError, NoDeviceError

ADDRESS = ctypes.POINTER(ctypes.c_void_p)


class Library:
    """libcuda's symbols as C functions; each notes what it is called with, and writes 7 where it
    gives something.
    """

    def __init__(self, **results: int) -> None:
        self.results, self.calls = results, list[tuple[Any, ...]]()
        self.mode = 0  # of captures, of this thread
        pushed = {
            "cuCtxPushCurrent": "cuCtxPushCurrent_v2",
            "cuCtxPopCurrent": "cuCtxPopCurrent_v2",
        }
        for name, (takes, gives) in _CALLS.items():
            self._add(
                pushed.get(name, name),
                *([] if gives is None else [ctypes.POINTER(gives)]),
                *takes,
                gives=gives,
            )
        self._add("cuDeviceGetName", ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
        self._add("cuStreamIsCapturing", ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))
        self._add("cuThreadExchangeStreamCaptureMode", ctypes.POINTER(ctypes.c_int))

    def _add(self, name: str, *takes: Any, gives: Any = None) -> None:
        def call(*arguments: Any) -> int:
            if gives is not None:
                arguments[0][0] = 7
            elif name == "cuDeviceGetName":
                ctypes.memmove(arguments[0], b"GPU\0", 4)
            elif name == "cuStreamIsCapturing":
                arguments[1][0] = 1
            elif name == "cuThreadExchangeStreamCaptureMode":
                arguments[0][0], self.mode = self.mode, arguments[0][0]
            self.calls.append(
                (name, *(argument for argument in arguments if isinstance(argument, int | bytes)))
            )
            return self.results.get(name, 0)

        setattr(self, name, ctypes.CFUNCTYPE(ctypes.c_int, *takes)(call))


@pytest.mark.parametrize("kind", ["CUdevice_attribute", "CUfunction_attribute"])
def test_numbers_are_those_of_the_driver(kind: str) -> None:
    names = vars(getattr(Libcuda, kind))
    numbers = {name: number for name, number in names.items() if name.startswith("CU_")}
    assert len(numbers) > 7
    assert numbers == {name: int(getattr(getattr(real, kind), name)) for name in numbers}
    other = {
        "CUdevice_attribute": "CU_DEVICE_ATTRIBUTE_WARP_SIZE",
        "CUfunction_attribute": "CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES",
    }[kind]
    assert getattr(getattr(Libcuda, kind), other) is getattr(getattr(real, kind), other)


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        *(
            ("cuInit", (0,), None),
            ("cuDriverGetVersion", (), 7),
            ("cuDeviceGetCount", (), 7),
            ("cuDeviceGet", (3,), 7),
        ),
        *(
            ("cuDeviceGetAttribute", (75, 3), 7),
            ("cuDevicePrimaryCtxRetain", (3,), 7),
            ("cuCtxGetCurrent", (), 7),
        ),
        *(
            ("cuCtxSetCurrent", (2**40,), None),
            ("cuCtxPushCurrent", (2**40,), None),
            ("cuCtxPopCurrent", (), 7),
        ),
        *(
            ("cuModuleLoadData", (b"image",), 7),
            ("cuModuleGetFunction", (2**40, b"add"), 7),
            ("cuFuncGetAttribute", (1, 2**40), 7),
        ),
        ("cuFuncSetAttribute", (2**40, 8, 100), None),
    ],
)
def test_a_call_gives_what_the_bindings_give(
    name: str, arguments: tuple[Any, ...], value: int | None
) -> None:
    library = Library()
    found = getattr(Libcuda(library), name)(*arguments)
    assert found == ((0,) if value is None else (0, value))
    (called,) = library.calls
    assert called == (called[0], *arguments)
    assert called[0].startswith(name)


def test_handles_are_numbers_or_objects_of_the_bindings() -> None:
    class Bound:
        def __int__(self) -> int:
            return 2**40

    assert [_Handle.from_param(handle).value for handle in (2**40, Bound())] == [2**40, 2**40]


def test_names_and_captures() -> None:
    api = Libcuda(Library())
    result, name = api.cuDeviceGetName(256, 0)
    assert (result, name[:4], len(name)) == (0, b"GPU\0", 256)
    assert api.cuStreamIsCapturing(5) == (0, 1)
    relaxed = api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    assert relaxed == int(real.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    assert api.cuThreadExchangeStreamCaptureMode(relaxed) == (0, 0)
    assert api.cuThreadExchangeStreamCaptureMode(0) == (0, relaxed)


def test_results_have_the_names_of_the_bindings() -> None:
    api = Libcuda(Library(cuDeviceGet=101, cuCtxGetCurrent=98765))
    assert api.cuDeviceGet(3)[0] is real.CUresult.CUDA_ERROR_INVALID_DEVICE
    assert api.cuCtxGetCurrent()[0] == 98765
    assert api.cuLaunchKernelEx is real.cuLaunchKernelEx


def test_a_driver_works_on_it() -> None:
    library = Library()
    api = Libcuda(library)
    api.cuGetErrorString = lambda _result: (0, b"words")  # the bindings', which need a driver
    driver = Driver(api)
    assert (driver.device_count(), driver.device(0).cc, driver.device(0).name) == (7, (7, 7), "GPU")
    module = driver.load_module(0, b"image")
    assert driver.function_facts(driver.function(module, "add")).registers == 7
    assert driver.launch_target(0) == 7
    library.results["cuModuleLoadData"] = 209
    with pytest.raises(DriverError, match="CUDA_ERROR_NO_BINARY_FOR_GPU"):
        driver.load_module(0, b"image")
    library.results["cuInit"] = 100
    with pytest.raises(NoDeviceError, match="CUDA_ERROR_NO_DEVICE"):
        Driver(Libcuda(library))


def test_without_the_bindings_or_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Libcuda(Library())
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    assert api.cuDeviceGetCount() == (0, 7)
    with pytest.raises(NoDeviceError, match="cuda-bindings cannot be imported"):
        api.cuMemAlloc  # noqa: B018
    fails: Callable[[], Any] = lambda: (_ for _ in ()).throw(OSError("no libcuda.so.1"))  # noqa: E731
    monkeypatch.setattr("tilec_runtime.device.driver.Libcuda", fails)
    monkeypatch.setattr(process_driver, "_made", [])
    with pytest.raises(NoDeviceError, match=r"\(libcuda\) cannot be loaded: no libcuda.so.1"):
        process_driver()
