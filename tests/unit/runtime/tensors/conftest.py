"""Devices and tensors for the tests of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import PacedCpu
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.tensors.tensor import Tensor

CPU = -1


@pytest.fixture
def cpu() -> CpuDriver:
    return PacedCpu()


@pytest.fixture
def gpu() -> FakeDriver:
    return FakeDriver()


@pytest.fixture
def tensor(cpu: CpuDriver) -> Callable[..., Tensor]:
    """Makes a tensor on the cpu device, with these contents or counting up."""

    def make(*shape: int, dtype: str = "f32", data: Any = None) -> Tensor:
        made = Tensor.uninitialized(shape, dtype, driver=cpu, ordinal=CPU, stream=0)
        array = np.asarray(made)
        array[...] = np.arange(array.size).reshape(shape) if data is None else data
        return made

    return make


@pytest.fixture
def on_gpu(gpu: FakeDriver) -> Callable[..., Tensor]:
    """Makes a tensor on a fake GPU, in the order of stream 5."""

    def make(*shape: int, dtype: str = "f32") -> Tensor:
        return Tensor.uninitialized(shape, dtype, driver=gpu, ordinal=0, stream=5)

    return make
