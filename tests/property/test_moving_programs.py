"""Random programs on a driver that, as CUDA's, holds no arguments: there, launches of tensors that
move take the shortest way.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tests.programs.many import Program
from tests.programs.programs import carry_out, follow
from tests.runtime_samples import ADD, ADD_ABI, bundle_of
from tilec.testing.fake_driver import FakeDriver, FakeKernel
from tilec_runtime import Device, Stream, Tensor, load
from tilec_runtime.tensors.lease import Holder


class FakeSite:
    """A driver that works at once."""

    kernel = "add"
    extra = (1.0,)

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

    def launch(self, stream: Any, z: Any, x: Any, y: Any) -> None:
        self.module.add(z, x, y, stream=stream)

    def lazy(self, z: Any, x: Any, y: Any) -> Any:
        return self.module.ops.add(z, x, y)

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
    site = FakeSite()

    def attempt(program: Program, _: int) -> None:
        before = len(site.driver._memory)
        carry_out(program, site)
        assert len(site.driver._memory) == before

    follow(attempt, 300)
