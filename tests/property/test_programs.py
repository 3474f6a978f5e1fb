"""Random programs over tensors, ops, streams, threads and tasks on a cpu device whose streams are
held up, against one step at a time.
"""

from __future__ import annotations

import ctypes
import random
import time
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import device, held
from tests.programs.many import Program
from tests.programs.programs import carry_out, follow
from tests.runtime_samples import ADD, ADD_ABI, bundle_of
from tilec.testing.fake_driver import FakeDriver, FakeKernel
from tilec_runtime import Device, Stream, Tensor, load
from tilec_runtime.cpu.launch import CpuRun
from tilec_runtime.tensors.lease import Holder

# What a kernel is given that is to fail.
FAIL = -666.0


def add(run: CpuRun) -> None:
    z, x, y = (held(run, name) for name in "zxy")
    if run.arguments[4] == FAIL:
        z[:] = np.nan
        raise OSError("the kernel failed")
    np.add(x, y, out=z)


class Added:
    """What both sites do with the kernel `add`."""

    kernel = "add"
    extra = (1.0,)
    module: Any

    def launch(self, stream: Any, z: Any, x: Any, y: Any) -> None:
        self.module.add(z, x, y, stream=stream)

    def lazy(self, z: Any, x: Any, y: Any) -> Any:
        return self.module.ops.add(z, x, y)


class CpuSite(Added):
    """A cpu device whose streams take their time, and whose freed memory is overwritten and given
    out again.
    """

    def __init__(self) -> None:
        self.delays = random.Random(0)
        self.module, self.driver = device(add)
        self.driver._poison = True
        self.driver._pace = lambda: time.sleep(self.delays.choice((0, 0, 0, 0, 0, 0.0002, 0.001)))
        self.device = Device("cpu", driver=self.driver)
        self.streams = [Stream(self.device) for _ in range(3)]

    def broken(self, z: Any, x: Any, y: Any) -> Any:
        return self.module.ops.add(z, x, y, FAIL)

    def read(self, tensor: Any) -> np.ndarray:
        return np.asarray(tensor)

    def adopt(self, array: np.ndarray) -> Tensor:
        return Tensor.from_foreign(array, driver=self.driver)


class FakeSite(Added):
    """A driver that works at once and that, as CUDA's, holds no arguments: there, launches of
    tensors that move take the shortest way.
    """

    def __init__(self) -> None:
        kernel = FakeKernel(abi=ADD_ABI, run=self._add)
        self.driver = FakeDriver(
            kernels={image.symbol: kernel for variant in ADD.variants for image in variant.images}
        )
        self.module = load(bundle_of(ADD), 0, driver=self.driver)
        self.device = Device(0, driver=self.driver)
        self.streams = [Stream(0, driver=self.driver) for _ in range(3)]

    def _add(self, z: int, x: int, y: int, count: int, alpha: float) -> None:
        out, one, two = (
            np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))
            for address in (z, x, y)
        )
        np.add(one * np.float32(alpha), two, out=out)

    def broken(self, z: Any, x: Any, y: Any) -> Any:
        return None  # nothing runs later here

    def read(self, tensor: Any) -> np.ndarray:
        tensor.require_readable(Holder(name="__array_interface__"))
        out = np.empty(tensor.shape, np.float32)
        ctypes.memmove(out.ctypes.data, tensor.ptr, tensor.nbytes)
        return out

    def adopt(self, array: np.ndarray) -> Tensor:
        return Tensor.borrow_raw(
            array.ctypes.data, array.shape, "f32", owner=array, driver=self.driver
        )


def test_programs_give_what_they_give_one_step_at_a_time() -> None:
    site = CpuSite()

    def attempt(program: Program, pace: int) -> None:
        site.delays.seed(pace)
        before = len(site.driver._owners)
        carry_out(program, site)
        assert len(site.driver._owners) == before

    follow(attempt)


def test_programs_on_a_driver_that_holds_no_arguments() -> None:
    site = FakeSite()

    def attempt(program: Program, _: int) -> None:
        before = len(site.driver._memory)
        carry_out(program, site)
        assert len(site.driver._memory) == before

    follow(attempt, 300)


def test_the_programs_would_see_unordered_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, where storages forget to let streams wait."""
    monkeypatch.setattr("tilec_runtime.tensors.uses.Uses.before", lambda *_, **__: [])
    site = CpuSite()
    launches: Program = [("tensor_steps.launch", n * 73 % 4096 | 512) for n in range(40)]

    def run_some() -> None:
        for seed in range(40):
            site.delays.seed(seed)
            carry_out([*launches, ("tensor_steps.read", 0)], site)

    with pytest.raises(AssertionError):
        run_some()


def test_the_programs_would_see_a_claim_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, where nothing that is released is."""
    monkeypatch.setattr("tilec_runtime.tensors.lease.Lease._leave", lambda *_: None)
    monkeypatch.setattr("tests.programs.world.PATIENCE", 0.1)
    with pytest.raises(AssertionError, match="the view"):
        carry_out([("tensor_steps.view", 0), ("tensor_steps.release", 0)], CpuSite())
