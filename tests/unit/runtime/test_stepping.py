"""Stepping through a launch from its launcher: the same checks and arguments as a launch, one
operation after another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ADD, PythonKernels, ones
from tests.runtime_samples import bundle_of
from tests.unit.runtime.cpu.tileir.build import TOKEN, Builder, program
from tilec_runtime import Module, Tensor, load
from tilec_runtime.cpu.launch import CpuOptions
from tilec_runtime.cpu.tileir.ir import MemoryOrder, Value
from tilec_runtime.cpu.tileir.program import Program
from tilec_runtime.errors import BorrowError, RequirementError, UsageError


class Stores(PythonKernels):
    """Its kernel stores alpha to the element of z that has the block's number."""

    def function(self, module: Any, symbol: str) -> Program:
        def fill(b: Builder, z: Value, x: Value, y: Value, size: Value, alpha: Value) -> None:
            at, _, _ = b.op("get_tile_block_id", {}, [size.type] * 3)
            to = b.op("offset", {"pointer": z, "offset": at}, z.type)
            b.op(
                "store_ptr_tko",
                {"destination": to, "value": alpha},
                TOKEN,
                {"order": MemoryOrder.WEAK},
            )
            b.ret()

        return program(self.types, fill, name="add")


def stores(options: CpuOptions | None = None) -> Module:
    return load(bundle_of(ADD), "cpu", driver=Stores(options))


def test_a_launcher_steps_through_a_block_of_the_call() -> None:
    z = np.zeros(1000, np.float32)
    with stores().add.step(z, ones(1000), ones(1000), alpha=5.0, block=(3, 0, 0)) as stepper:
        names = []
        for executed in stepper:
            names.append(executed.op.name)
            assert executed.block == (3, 0, 0)
    assert names[:3] == ["get_tile_block_id", "offset", "store_ptr_tko"]
    assert np.flatnonzero(z).tolist() == [3]
    assert z[3] == 5
    several = stores().add.step(z, ones(1000), ones(1000), block=[(0, 0, 0), (2, 0, 0)])
    list(several)
    assert np.flatnonzero(z).tolist() == [0, 2, 3]


def test_stepping_refuses_what_a_launch_refuses() -> None:
    module = stores()
    with pytest.raises(RequirementError, match=r"^add: requires x.shape\[0\] == z.shape\[0\]"):
        module.add.step(ones(8), ones(9), ones(8))
    with pytest.raises(UsageError, match=r"^block \(1, 0, 0\) is not of the grid \(1, 1, 1\)"):
        module.add.step(ones(8), ones(8), ones(8), block=(1, 0, 0))
    with pytest.raises(
        UsageError, match=r"^add: the grid of this call has no blocks to step through"
    ):
        module.add.step(ones(0), ones(0), ones(0))


def test_tensors_of_tilec_are_stepped_on_as_they_may_be_used() -> None:
    driver = Stores()
    module = load(bundle_of(ADD), "cpu", driver=driver)
    z, x = (
        Tensor.uninitialized((8,), "f32", driver=driver, ordinal=-1, stream=0) for _ in range(2)
    )
    with z.borrow(), pytest.raises(BorrowError, match="add"):
        module.add.step(z, x, x)
    list(module.add.step(z, x, x, alpha=7.0))
    assert np.asarray(z)[0] == 7
