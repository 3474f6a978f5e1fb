"""The driver of standalone packages: what it gives libcuda, beside what the bindings give."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cuda.bindings import driver as real

from tests.bundle_samples import write_sample
from tests.unit.runtime.fake_torch import Tensor
from tilec_runtime import hub
from tilec_runtime.bundle.format import index_digest
from tilec_runtime.device.driver import Driver
from tilec_runtime.device.seam_types import LaunchParts, LaunchShape
from tilec_runtime.device.standalone import StandaloneDriver, StandaloneLibcuda
from tilec_runtime.errors import (
    ArgumentError,
    BundleError,
    DriverError,
    LaunchError,
    NoDeviceError,
    NoImageError,
)
from tilec_runtime.model.tensormap import TensorMap

CONTEXT = 0x77
POINTER_AT = 40  # of the attributes in CUlaunchConfig


class Library:
    """libcuda's symbols; each notes its plain arguments, and writes what `gives` says."""

    def __init__(self, **results: int) -> None:
        self.results, self.calls = results, list[tuple[Any, ...]]()
        self.facts: dict[int, int] = {}  # attributes of the device, by their numbers
        self.gives = {
            "cuDeviceGetCount": 2,
            "cuDevicePrimaryCtxRetain": CONTEXT,
            "cuCtxGetCurrent": CONTEXT,
            "cuCtxPopCurrent_v2": CONTEXT,
            "cuPointerGetAttribute": 1,
            "cuOccupancyMaxActiveClusters": 5,
            "cuMemAllocAsync": 0x1000,
            "cuThreadExchangeStreamCaptureMode": 1,
        }

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            values = [getattr(value, "_obj", value) for value in arguments]
            self.calls.append((name, *map(plain, values)))
            if name in ("cuGetErrorName", "cuGetErrorString"):
                values[1].value = b"CUDA_ERROR_INVALID_VALUE" if name.endswith("e") else b"words"
                return 0
            if name in self.gives and hasattr(values[0], "value"):
                values[0].value = self.gives[name]
            if name == "cuDeviceGetAttribute":
                values[0].value = self.facts.get(values[1], 48 * 1024)
            if name == "cuTensorMapEncodeTiled":
                ctypes.memset(values[0].value, 7, 128)
            return self.results.get(name, 0)

        self.__dict__[name] = call
        return call


def plain(value: Any) -> Any:
    if isinstance(value, ctypes.Structure):
        return bytes(value)
    if isinstance(value, ctypes.Array):
        return list(value)
    return getattr(value, "value", value)


def started(**results: int) -> tuple[StandaloneDriver, Library]:
    library = Library(**results)
    return StandaloneDriver(StandaloneLibcuda(library)), library


SHAPES = [
    LaunchShape(grid=(3, 4, 5), block=(128, 2, 1), shared=4096),
    LaunchShape(grid=(8, 1, 1), block=(32, 1, 1), cluster=(2, 4)),
    LaunchShape(grid=(8, 1, 1), block=(32, 1, 1), cluster=(1, 1, 1), cooperative=True),
    LaunchShape(grid=(8, 1, 1), block=(32, 1, 1), cluster=(2,), programmatic=True),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_launch_has_the_bytes_that_the_bindings_give(shape: LaunchShape) -> None:
    mine, _ = started()
    config = mine._config(shape, 0x55)
    theirs = Driver._config(type("Api", (), {"_api": real})(), shape, 0x55)  # type: ignore[arg-type]
    wanted = ctypes.string_at(theirs.getPtr(), ctypes.sizeof(config))
    given = bytes(config)
    assert ctypes.sizeof(config) == 56
    assert given[:POINTER_AT] == wanted[:POINTER_AT]
    assert given[POINTER_AT + 8 : POINTER_AT + 12] == wanted[POINTER_AT + 8 : POINTER_AT + 12]
    count = config.count
    assert count == theirs.numAttrs
    size = 72
    place = int.from_bytes(wanted[POINTER_AT : POINTER_AT + 8], "little")
    for number in range(count):
        other = ctypes.string_at(place + number * size, size)
        own = bytes(config.attributes[number])
        assert (own[:4], own[8:20]) == (other[:4], other[8:20])


def test_enqueues_by_the_device_s_context() -> None:
    driver, library = started()
    parts = LaunchParts(kernel="k", sizes=(), addresses=(), tensors=())
    call = driver.bind_launch(0, 0x99, SHAPES[0], 0x55, parts)
    assert call(0x1234, 0)[0] == 0
    (launch,) = (made for made in library.calls if made[0] == "cuLaunchKernelEx")
    assert launch[2:] == (0x99, 0x1234, None)


def test_a_refused_launch_is_an_error_with_the_driver_s_name_and_words() -> None:
    driver, _ = started(cuLaunchKernelEx=1)
    parts = LaunchParts(kernel="k", sizes=(), addresses=(), tensors=())
    (result,) = driver.bind_launch(0, 0x99, SHAPES[0], 0, parts)(0x1234, 0)
    with pytest.raises(DriverError, match="CUDA_ERROR_INVALID_VALUE") as caught:
        driver.launch_failed(0, result, 0, lambda: 0, "k")
    assert caught.value.code == 1


def test_tensor_maps() -> None:
    driver, library = started()
    wanted = TensorMap(element=6, swizzle=3, box=(1, 64, 32))
    data = driver.tensor_map(0, wanted, 0xABC0, (5, 200, 100), (40000, 200, 2))
    assert data == b"\7" * 128
    (made,) = (call for call in library.calls if call[0] == "cuTensorMapEncodeTiled")
    place, element, rank, address, extents, pitches, box, steps, *rest = made[1:]
    assert place % 64 == 0
    assert (element, rank, address) == (wanted.element, 3, 0xABC0)
    assert (extents, pitches, box, steps) == ([100, 200, 5], [200, 40000], [32, 64, 1], [1, 1, 1])
    assert rest == [0, 3, 2, 0]


def test_what_else_launches_ask() -> None:
    driver, library = started()
    assert driver.pointer_device(0xABC) == 1
    assert driver.active_clusters(0, 0x99, SHAPES[1]) == 5
    assert driver.allocate(0, 64, None) == 0x1000
    driver.free(0, 0x1000, 3)
    with driver.outside_captures(0):
        assert ("cuThreadExchangeStreamCaptureMode", 2) in library.calls
    assert library.calls[-1] == ("cuThreadExchangeStreamCaptureMode", 1)


def test_the_bindings_are_never_asked() -> None:
    driver, _ = started()
    with pytest.raises(AttributeError, match="cuGraphLaunch is not among the driver calls"):
        driver._api.cuGraphLaunch(0, 0)


def test_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilec_runtime.device import standalone

    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(NoDeviceError, match="libcuda"):
        standalone.driver.__wrapped__()


# --- Launches of a standalone package


class _Bound(StandaloneDriver):
    """Launches through ctypes where there is a launch core too."""

    def launch_target(self, ordinal: int) -> None:
        return None


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[hub.Kernels, Library]:
    """The sample on an H100 whose libcuda is a double, and torch as far as launches look."""
    _, info, _ = write_sample(tmp_path / "x.tilec")
    library = Library()
    library.gives["cuDriverGetVersion"] = 13000
    library.gives["cuFuncGetAttribute"] = 1024
    library.facts = {75: 9, 76: 0, 1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2**31 - 1}
    driver = _Bound(StandaloneLibcuda(library))
    monkeypatch.setattr(hub, "driver", lambda: driver)
    monkeypatch.setattr(Tensor, "__dlpack__", None, raising=False)
    stream = SimpleNamespace(cuda_stream=0x55)
    torch = SimpleNamespace(cuda=SimpleNamespace(current_stream=lambda device: stream))
    monkeypatch.setitem(sys.modules, "torch", torch)
    return hub.Kernels(tmp_path / "x.tilec", index_digest(info)), library


def test_a_standalone_package_launches_on_torch_s_stream(
    package: tuple[hub.Kernels, Library],
) -> None:
    kernels, library = package
    y, x = Tensor((64, 64), ptr=0x10000), Tensor((64, 64), ptr=0x90000)
    for _ in range(2):  # the second repeats the plan
        kernels.launch("rmsnorm", (y, x, 1e-6))
    launches = [call for call in library.calls if call[0] == "cuLaunchKernelEx"]
    assert len(launches) == 2
    config = launches[0][1]
    assert int.from_bytes(config[32:40], "little") == 0x55
    assert sum(call[0] == "cuModuleLoadData" for call in library.calls) == 1


def test_a_standalone_package_refuses_host_tensors(package: tuple[hub.Kernels, Library]) -> None:
    kernels, library = package
    host = Tensor((64, 64), index=-1)
    with pytest.raises(ArgumentError, match=r"rmsnorm: got a torch\.Tensor"):
        kernels.launch("rmsnorm", (host, host, 1e-6))
    with pytest.raises(ArgumentError, match="tensors on the host"):
        kernels.load("cpu")
    x = Tensor((64, 64))
    with pytest.raises(LaunchError, match="rmsnorm"):
        kernels.launch("rmsnorm", (x, Tensor((64, 64), ptr=0x90000, index=-1), 1e-6))
    assert not any(call[0] == "cuLaunchKernelEx" for call in library.calls)


def test_a_standalone_package_compiles_nothing_at_load(
    package: tuple[hub.Kernels, Library],
) -> None:
    kernels, library = package
    library.facts |= {75: 12, 76: 1}  # the sample has PTX for it, and no machine code
    y, x = Tensor((64, 64), ptr=0x10000), Tensor((64, 64), ptr=0x90000)
    with pytest.raises(NoImageError, match="compute_80"):
        kernels.launch("rmsnorm", (y, x, 1e-6))


def test_a_standalone_package_refuses_another_bundle(tmp_path: Path) -> None:
    write_sample(tmp_path / "x.tilec")
    with pytest.raises(BundleError, match="is not the one that its package was built with"):
        hub.Kernels(tmp_path / "x.tilec", "0" * 64)
