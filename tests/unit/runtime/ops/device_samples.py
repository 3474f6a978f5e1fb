"""A cpu device for tests of ops: streams that can be held up, memory that reads as NumPy arrays,
and kernels that fail.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.cpu_samples import ADD, PythonKernels, add, ones
from tests.runtime_samples import bundle_of
from tests.waiting import PATIENCE
from tilec_runtime import Device, Module, Tensor, load
from tilec_runtime.cpu.launch import CpuOptions, CpuRun
from tilec_runtime.ops.context import ExecutionContext

CPU = -1


class Thing:
    """An object whose end a weak reference shows."""


class Held:
    """A cpu device whose kernels wait until they are let go."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.fail = False
        self.runs = 0
        self.driver = PythonKernels(CpuOptions(run=self._run))
        self.device = Device("cpu", driver=self.driver)
        self.module: Module = load(bundle_of(ADD), self.device)

    def _run(self, run: CpuRun) -> None:
        assert self.gate.wait(PATIENCE)
        self.runs += 1
        if self.fail:
            raise OSError("the kernel failed")
        add(run)

    def tensor(self, number: float = 1.0, count: int = 4) -> Tensor:
        made = Tensor.uninitialized((count,), "f32", driver=self.driver, ordinal=CPU, stream=0)
        np.asarray(made)[...] = number
        return made

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """While it lasts, kernels wait."""
        self.gate.clear()
        try:
            yield
        finally:
            self.gate.set()

    def increment(
        self, ctx: ExecutionContext, z: np.ndarray[Any, Any], x: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any]:
        """z = x + 1, enqueued."""
        self.module.add(z, x, ones(len(x)), stream=ctx)
        return z
