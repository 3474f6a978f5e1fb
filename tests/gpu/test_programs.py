"""Random programs over tensors, ops, streams, threads and tasks on a GPU, against the same programs
one step at a time.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.gpu.busy import Busy
from tests.programs.many import Program
from tests.programs.programs import carry_out, follow
from tilec_runtime import Device, DeviceBuffer, Stream, Tensor
from tilec_runtime.errors import NoDeviceError
from tilec_runtime.tensors.lease import Holder

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]
# Cycles of a busy loop on the device, before some launches: up to a millisecond.
DELAYS = (0, 0, 0, 0, 100_000, 1_000_000)


class GpuSite:
    """A GPU whose streams are busy now and then, and `vector_add` of the examples."""

    kernel = "vector_add"
    extra: tuple[Any, ...] = ()

    def __init__(self, kernels: Any) -> None:
        self.kernels = kernels
        self.delays = random.Random(0)
        self.device = Device(0)
        self.busy = Busy(self.device)
        self.driver = self.device.driver
        self.streams = [Stream(0) for _ in range(3)]

    def launch(self, stream: Any, z: Any, x: Any, y: Any) -> None:
        cycles = self.delays.choice(DELAYS)
        if cycles and stream in self.streams:
            self.busy(stream, cycles)
        self.kernels.vector_add(z, x, y, stream=stream)

    def lazy(self, z: Any, x: Any, y: Any) -> Any:
        return self.kernels.ops.vector_add(z, x, y)

    def broken(self, z: Any, x: Any, y: Any) -> Any:
        return None  # a kernel that fails takes the context with it: tests/gpu/test_errors.py

    def read(self, tensor: Any) -> np.ndarray:
        tensor.require_readable(Holder(name="__array_interface__"))
        tensor.storage.sync(write=False)
        out = np.empty(tensor.shape, np.float32)
        stream = self.driver.create_stream(0)
        self.driver.copy_out(0, out.ctypes.data, tensor.ptr, tensor.nbytes, stream)
        self.driver.destroy_stream(0, stream)
        return out

    def adopt(self, array: np.ndarray) -> Tensor:
        return Tensor.from_foreign(DeviceBuffer.from_host(array, 0))


@pytest.fixture(scope="module")
def site(package: Any) -> GpuSite:
    try:
        Device(0)
    except NoDeviceError as error:
        pytest.skip(error.what)
    return GpuSite(package.load(0))


def test_programs_give_what_they_give_one_step_at_a_time(site: GpuSite) -> None:
    def attempt(program: Program, pace: int) -> None:
        site.delays.seed(pace)
        carry_out(program, site)

    follow(attempt)
