"""What tests of graphs need: tensors on a cpu device that poisons freed memory, and on a fake GPU;
ops that copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.runtime_samples import ADD as GPU_ADD
from tests.runtime_samples import bundle_of, fake_driver
from tests.unit.runtime.ops.device_samples import Held
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Module, Stream, load
from tilec_runtime.ops.combinators import with_context
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.tensors.tensor import Tensor

COUNT = 64


class Cpu(Held):
    """The device with a stream, and larger tensors; freed memory reads as poison."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = self.device.new_stream()

    def tensor(self, number: float = 1.0, count: int = COUNT) -> Tensor:
        return super().tensor(number, count)

    @property
    def used(self) -> int:
        """Bytes that are allocated."""
        return self.driver.pool_stats(-1, self.driver.default_pool(-1)).used

    def add(self, z: Any, x: Any, y: Any, alpha: float = 1.0) -> DeviceOp[Any]:
        """z = x * alpha + y; gives z."""
        return self.module.ops.add(z, x, y, alpha=alpha).first()


class Gpu:
    """A fake GPU, whose calls are counted; tensors are made on stream 5."""

    def __init__(self) -> None:
        self.driver: FakeDriver = fake_driver(GPU_ADD)
        self.module: Module = load(bundle_of(GPU_ADD), driver=self.driver)
        self.stream = Stream(0, driver=self.driver)
        self.other = Stream(0, driver=self.driver)

    def tensor(self) -> Tensor:
        return Tensor.uninitialized(COUNT, "f32", driver=self.driver, ordinal=0, stream=5)


def contents(tensor: Any) -> set[float]:
    """The elements of a tensor on the cpu device, once all work on it is done."""
    return set(np.asarray(tensor).tolist())


def copy(target: Tensor, source: Tensor) -> DeviceOp[None]:
    """The contents of one tensor for another one."""

    def work(ctx: ExecutionContext) -> None:
        ctx.reads(source.storage)
        ctx.writes(target.storage)
        ctx.memcpy_dtod_async(target.ptr, source.ptr, source.nbytes)

    return with_context(work)
