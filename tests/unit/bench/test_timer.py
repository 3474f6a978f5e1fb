"""Timing launches on a pretended GPU and on the cpu device: copies, flushes, graphs."""

from __future__ import annotations

import contextlib
import dataclasses
import types
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import device as cpu_device
from tests.runtime_samples import ADD, loaded
from tilec.bench.libraries import TorchLibrary, open_library
from tilec.bench.timer import (
    KernelTimer,
    RivalTimer,
)
from tilec.case.device import KernelCall
from tilec.testing.fake_driver import H200, FakeDriver
from tilec_runtime.cpu.driver import CPU
from tilec_runtime.errors import MissingError
from tilec_runtime.tensors.buffer import DeviceBuffer

COUNT = 1024
SIZE = 3 * 4 * COUNT  # bytes of one set of arguments


def timer(l2: int = 0, *, cold: bool = True) -> tuple[KernelTimer, FakeDriver, list[DeviceBuffer]]:
    module, driver = loaded(ADD, devices=(dataclasses.replace(H200, l2=l2),))
    outputs: list[DeviceBuffer] = []

    def make() -> list[KernelCall]:
        arguments = {name: DeviceBuffer((COUNT,), "f32", 0, driver=driver) for name in "zxy"}
        outputs.append(arguments["z"])
        return [KernelCall(launcher=module.kernels["add"], arguments=arguments, axes={})]

    return KernelTimer(module.device, driver, make, cold=cold), driver, outputs


@pytest.mark.parametrize(
    ("l2", "cold", "cache", "copies"),
    [
        (SIZE // 2, True, "as it is", 1),
        (2 * SIZE, True, "rotated", 5),
        (100 * SIZE, True, "flushed", 201),
        (2 * SIZE, False, "hot", 1),
    ],
)
def test_launches_rotate_through_copies_of_the_arguments(
    l2: int, cold: bool, cache: str, copies: int
) -> None:
    found, driver, outputs = timer(l2, cold=cold)
    assert (found.cache, len(outputs), found.variant) == (cache, copies, "add-a16")
    found.seconds(7)  # captures
    launched, steps = len(driver.launches), len(driver.steps)
    found.seconds(7)
    addresses = [launch.arguments[0] for launch in driver.launches[launched:]]
    assert addresses == [outputs[place % copies].ptr for place in range(7)]
    calls = [s.call for s in driver.steps[steps:] if s.call in ("fill", "launch", "record")]
    assert calls == ["fill"] * (cache == "flushed") + ["record", *["launch"] * 7, "record"]
    found.close()
    found.close()
    assert driver.calls.count("instantiate_graph") == driver.calls.count("destroy_executable") == 1


def test_launches_on_the_cpu_device_take_time() -> None:
    module, driver = cpu_device()
    kept: list[DeviceBuffer] = []

    def make() -> list[KernelCall]:
        ones = np.ones(64, np.float32)
        arguments = {n: DeviceBuffer.from_host(ones, "cpu", driver=driver) for n in "zxy"}
        kept.append(arguments["z"])
        return [KernelCall(launcher=module.kernels["add"], arguments=arguments, axes={})]

    with contextlib.closing(KernelTimer(module.device, driver, make)) as found:
        assert found.seconds(1) > 0
        assert found.seconds(3) > 0
        assert (found.clocks(), found.cache) == (None, "as it is")
        assert found.host_seconds(8, lambda: 0.0) is None
    assert kept[0].to_host()[0] == pytest.approx(2.0)


class Torch:
    """The parts of torch that capture and replay; `steps` is what was done, in order."""

    __version__ = "2.9"

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.cuda = types.SimpleNamespace(
            CUDAGraph=lambda: types.SimpleNamespace(replay=lambda: self.steps.append("replay")),
            ExternalStream=lambda handle, device: (handle, device),
            stream=contextlib.nullcontext,
            synchronize=lambda _: self.steps.append("synchronize"),
            graph=self._graph,
        )

    @contextlib.contextmanager
    def _graph(self, _graph: Any, stream: Any) -> Any:
        assert stream[1] == "cuda:0"
        self.steps.append("[")
        yield
        self.steps.append("]")


def test_torch_is_timed_in_its_own_graphs() -> None:
    torch = Torch()
    calls = [lambda: torch.steps.append("a"), lambda: torch.steps.append("b")]
    library = TorchLibrary(torch, "cuda:0")
    found = RivalTimer(H200, FakeDriver(), library, calls, flush=0, clocks=None)
    for count, steps in ((1, "a"), (3, "ab[aba]"), (3, "")):
        torch.steps.clear()
        found.seconds(count)
        assert "".join(torch.steps).replace("replay", "") == steps
        assert torch.steps.count("replay") == (count > 1)


NO_GPU = types.SimpleNamespace(
    __version__="2.9", cuda=types.SimpleNamespace(is_available=lambda: False)
)


def absent(name: str) -> Any:
    raise ImportError(name)


@pytest.mark.parametrize(
    ("device", "name", "find", "said"),
    [
        (H200, "torch", absent, "torch is not installed"),
        (CPU, "cupy", lambda _: object(), "cupy computes on GPUs only"),
        (H200, "numpy", absent, "numpy computes on the host"),
        (H200, "torch", lambda _: NO_GPU, "torch 2.9 sees no GPU"),
    ],
)  # fmt: skip
def test_missing_libraries_are_named(device: Any, name: str, find: Any, said: str) -> None:
    with pytest.raises(MissingError, match=said):
        open_library(name, device, find)
