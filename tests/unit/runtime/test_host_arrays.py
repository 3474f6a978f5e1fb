"""Launches on the cpu device that take arrays of NumPy return when they are done; those of tilec's
own tensors do not wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable
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
    time.sleep(0.02)
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


def tensors(module: Any, driver: Any, stream: Any) -> None:
    module.add(*(Tensor.from_foreign(ones(4), driver=driver) for _ in range(3)), stream=stream)


def buffers(module: Any, driver: Any, stream: Any) -> None:
    module.add(
        *(DeviceBuffer.from_host(ones(4), "cpu", driver=driver) for _ in range(3)), stream=stream
    )


def an_op(module: Any, driver: Any, stream: Any) -> None:
    module.ops.add(ones(4), ones(4), ones(4)).enqueue_on(stream)


def a_launch_of_an_op(module: Any, driver: Any, stream: Any) -> None:
    with_context(lambda ctx: module.add(ones(4), ones(4), ones(4), stream=ctx.stream)).enqueue_on(
        stream
    )


@pytest.mark.parametrize("launch", [tensors, buffers, an_op, a_launch_of_an_op])
def test_launches_of_tensors_and_ops_do_not_wait(launch: Callable[..., None]) -> None:
    gate, runs = Gate(), list[CpuRun]()

    def gated(run: CpuRun) -> None:
        gate()
        runs.append(run)

    module, driver = device(gated)
    gate.open.clear()
    with Stream(Device("cpu", driver=driver), driver=driver) as stream:
        launch(module, driver, stream)
        assert runs == []
        gate.open.set()
        stream.sync()
    assert len(runs) == 1


def test_a_launch_on_another_stream_than_its_ops_is_waited_for() -> None:
    module, driver = device(slowly)
    z = np.zeros(4, np.float32)

    def launched(_: object) -> list[float]:
        module.add(z, ones(4), ones(4))
        return list(z)

    with use_device(Device("cpu", driver=driver)):
        assert as_op(1).map(launched).sync() == [2.0] * 4
