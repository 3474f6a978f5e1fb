"""Launches on the cpu device that take arrays of NumPy return when they are done; those of tilec's
own tensors do not wait.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import add, device, ones
from tests.waiting import Gate
from tilec_runtime import Device, DeviceBuffer, Stream, Tensor, as_op, use_device, with_context
from tilec_runtime.cpu.launch import CpuRun


class Foreign:
    """An array of a library that tilec does not know, by its DLPack protocol."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def slowly(run: CpuRun) -> None:
    time.sleep(0.05)
    add(run)


@pytest.mark.parametrize("launch", ["call", "axes by name"])
@pytest.mark.parametrize("others", ["NumPy", "buffers"])
@pytest.mark.parametrize("stream", ["0", "a stream"])
def test_a_result_can_be_read_right_after_the_launch(launch: str, others: str, stream: str) -> None:
    module, driver = device(slowly)
    z, x = np.zeros(4, np.float32), ones(4)
    inputs: Any = x if others == "NumPy" else DeviceBuffer.from_host(x, "cpu", driver=driver)
    on: Any = 0 if stream == "0" else Stream(Device("cpu", driver=driver), driver=driver)
    for _ in range(3):  # the second finds the plan of the first
        z[:] = 0
        if launch == "call":
            module.add(z, inputs, inputs, stream=on)
        else:
            module.add(z=z, x=inputs, y=inputs, alpha=1.0, stream=on)
        assert z.tolist() == [2.0] * 4


def test_arrays_of_other_libraries_are_waited_for() -> None:
    module, _ = device(slowly)
    z = np.zeros(4, np.float32)
    module.add(Foreign(z), ones(4), ones(4))
    assert z.tolist() == [2.0] * 4


@pytest.mark.parametrize("own", ["tensors", "buffers", "an op", "a launch of an op"])
def test_launches_of_tensors_and_ops_do_not_wait(own: str) -> None:
    gate = Gate()

    def gated(run: CpuRun) -> None:
        gate()
        add(run)

    module, driver = device(gated)
    here = Device("cpu", driver=driver)
    gate.open.clear()
    with use_device(here), Stream(here, driver=driver) as stream:
        z, x = np.zeros(4, np.float32), ones(4)
        if own == "tensors":
            tensor = Tensor.from_foreign(z, driver=driver)
            module.add(
                tensor,
                Tensor.from_foreign(x, driver=driver),
                Tensor.from_foreign(x, driver=driver),
                stream=stream,
            )
        elif own == "buffers":
            buffer = DeviceBuffer.from_host(z, "cpu", driver=driver)
            given = DeviceBuffer.from_host(x, "cpu", driver=driver)
            module.add(buffer, given, given, stream=stream)
        elif own == "an op":
            future = module.ops.add(z, x, x).future()
        else:
            future = with_context(lambda ctx: module.add(z, x, x, stream=ctx.stream)).future()
        gate.open.set()
        stream.sync()
        if "op" in own:
            future.result(60)
            assert z.tolist() == [2.0] * 4


def test_a_launch_on_another_stream_than_its_ops_is_waited_for() -> None:
    module, driver = device(slowly)
    z = np.zeros(4, np.float32)

    def launched(_: object) -> list[float]:
        module.add(z, ones(4), ones(4))
        return list(z)

    with use_device(Device("cpu", driver=driver)):
        assert as_op(1).map(launched).sync() == [2.0] * 4
