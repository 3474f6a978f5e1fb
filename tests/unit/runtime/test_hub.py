"""Kernels of a standalone package: launches on torch's tensors and streams, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.bundle_samples import write_sample
from tests.unit.runtime.fake_torch import Tensor
from tests.unit.runtime.test_libcuda import Library
from tilec_runtime import hub
from tilec_runtime.bundle.format import index_digest
from tilec_runtime.device.driver import Driver
from tilec_runtime.device.libcuda import Libcuda
from tilec_runtime.errors import ArgumentError, BundleError, LaunchError, NoImageError


class _Bound(Driver):
    """Launches through ctypes where there is a launch core too."""

    def launch_target(self, ordinal: int) -> None:
        return None


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[hub.Kernels, Library]:
    """The sample on an H100 whose libcuda is a double, and torch as far as launches look."""
    _, info, _ = write_sample(tmp_path / "x.tilec")
    library = Library()
    library.gives |= {
        "cuDeviceGetCount": 2,
        "cuDevicePrimaryCtxRetain": 0x77,
        "cuCtxGetCurrent": 0x77,
        "cuPointerGetAttribute": 1,
        "cuDriverGetVersion": 13000,
        "cuFuncGetAttribute": 1024,
        "cuDeviceGetName": b"GPU",
        "cuDeviceGetAttribute": 48 * 1024,
    }
    library.facts = {75: 9, 76: 0, 1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2**31 - 1}
    driver = _Bound(Libcuda(library))
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
    x, host = Tensor((64, 64)), Tensor((64, 64), ptr=0x90000, index=-1)
    with pytest.raises(ArgumentError, match=r"rmsnorm: got a torch\.Tensor"):
        kernels.launch("rmsnorm", (host, host, 1e-6))
    with pytest.raises(ArgumentError, match="tensors on the host"):
        kernels.load("cpu")
    with pytest.raises(LaunchError, match="rmsnorm"):
        kernels.launch("rmsnorm", (x, host, 1e-6))
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
