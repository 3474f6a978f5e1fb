"""What tests of graphs need: tensors on a cpu device that poisons freed memory, and on a fake GPU;
ops that copy.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from tests.cpu_samples import ADD, PythonKernels, add
from tests.runtime_samples import ADD as GPU_ADD
from tests.runtime_samples import bundle_of, fake_driver
from tests.waiting import PATIENCE
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Device, Module, Stream, load
from tilec_runtime.cpu.launch import CpuOptions, CpuRun
from tilec_runtime.ops.combinators import with_context
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.tensors.tensor import Tensor

COUNT = 64


class Cpu:
    """A cpu device whose kernels wait while `gate` is closed, and whose freed memory reads as
    poison.
    """

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.runs = 0
        self.driver = PythonKernels(CpuOptions(run=self._run))
        self.device = Device("cpu", driver=self.driver)
        self.module: Module = load(bundle_of(ADD), self.device)
        self.stream = self.device.new_stream()

    def _run(self, run: CpuRun) -> None:
        assert self.gate.wait(PATIENCE)
        self.runs += 1
        add(run)

    def tensor(self, value: float) -> Tensor:
        made = Tensor.uninitialized((COUNT,), "f32", driver=self.driver, ordinal=-1, stream=0)
        np.asarray(made)[...] = value
        return made

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
