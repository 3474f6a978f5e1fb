"""Random programs over tensors, ops, streams, threads and tasks on a cpu device whose streams are
held up, against one step at a time.
"""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import device
from tests.programs.many import Program
from tests.programs.programs import carry_out, follow
from tilec_runtime import Device, Stream, Tensor
from tilec_runtime.cpu.launch import CpuRun

# What a kernel is given that is to fail.
FAIL = -666.0


def add(run: CpuRun) -> None:
    z, x, y = (run.regions[name].data.view("f4") for name in "zxy")
    if run.arguments[4] == FAIL:
        z[:] = np.nan
        raise OSError("the kernel failed")
    np.add(x, y, out=z)


class CpuSite:
    """A cpu device whose streams take their time, and whose freed memory is overwritten and given
    out again.
    """

    kernel = "add"
    extra = (1.0,)

    def __init__(self) -> None:
        self.delays = random.Random(0)
        self.module, self.driver = device(add)
        self.driver._poison = True
        self.driver._pace = lambda: time.sleep(self.delays.choice((0, 0, 0, 0, 0, 0.0002, 0.001)))
        self.device = Device("cpu", driver=self.driver)
        self.streams = [Stream(self.device) for _ in range(3)]

    def launch(self, stream: Any, z: Any, x: Any, y: Any) -> None:
        self.module.add(z, x, y, stream=stream)

    def lazy(self, z: Any, x: Any, y: Any) -> Any:
        return self.module.ops.add(z, x, y)

    def broken(self, z: Any, x: Any, y: Any) -> Any:
        return self.module.ops.add(z, x, y, FAIL)

    def read(self, tensor: Any) -> np.ndarray:
        return np.asarray(tensor)

    def adopt(self, array: np.ndarray) -> Tensor:
        return Tensor.from_foreign(array, driver=self.driver)


def test_programs_give_what_they_give_one_step_at_a_time() -> None:
    site = CpuSite()

    def attempt(program: Program, pace: int) -> None:
        site.delays.seed(pace)
        before = len(site.driver._owners)
        carry_out(program, site)
        assert len(site.driver._owners) == before

    follow(attempt)


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
