"""A device that is lost while ops run on it: every wait ends, every later call says so, and nothing
of it is told at the end.
"""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ADD, PythonKernels, add, ones
from tests.runtime_samples import bundle_of
from tests.unit.runtime.ops.graph_samples import Gpu
from tests.waiting import PATIENCE
from tilec_runtime import (
    Device,
    DeviceOp,
    Module,
    Stream,
    Tensor,
    as_op,
    load,
    use_device,
    with_context,
)
from tilec_runtime.cpu.launch import CpuOptions, CpuRun
from tilec_runtime.cpu.queue import Queue
from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.device.layout import ON_CPU
from tilec_runtime.device.lost import Losses
from tilec_runtime.errors import ContextLostError, FaultError

SINCE = "the context of the cpu device is lost since the launch gave CUDA_ERROR_LAUNCH_FAILED"


class Fragile(PythonKernels):
    """A cpu device that is lost with its first failed launch, as a GPU is."""

    def __init__(self, run: Callable[[CpuRun], None]) -> None:
        self._losses = Losses()

        def fragile(launch: CpuRun) -> None:
            self._losses.check(ON_CPU)
            try:
                run(launch)
            except Exception as error:
                raise self._losses.failed(
                    ON_CPU,
                    "the launch",
                    "CUDA_ERROR_LAUNCH_FAILED",
                    719,
                    kernel=launch.kernel,
                    blocking=True,
                ) from error

        super().__init__(CpuOptions(run=fragile))

    def forget(self) -> None:
        """Wait for the end of all work, and drop its errors."""
        for queue in list(self._queues.values()):
            queue.wait_for(queue.position, 10)
            queue.forget()

    def destroy_stream(self, ordinal: int, stream: int) -> None:
        """A lost device has no error to report any more."""
        if ON_CPU in self._losses and stream in self._queues:
            self._queues[stream].forget()
        super().destroy_stream(ordinal, stream)

    def synchronize_event(self, ordinal: int, event: int) -> None:
        super().synchronize_event(ordinal, event)
        self._losses.check(ordinal)

    def _queue(self, stream: int, kernel: str = "") -> Queue:
        self._losses.check(ON_CPU)
        return super()._queue(stream, kernel)


def _refusing(name: str) -> Any:
    """Return a method of the cpu device that fails once the device is lost."""

    def call(self: Fragile, *arguments: Any, **options: Any) -> Any:
        self._losses.check(ON_CPU)
        return getattr(super(Fragile, self), name)(*arguments, **options)

    return call


for _name in (
    *("allocate", "free", "load_module", "create_event", "event_reached", "synchronize_device"),
):
    setattr(Fragile, _name, _refusing(_name))


class Lab:
    """A device whose kernels wait for a gate, and fail where the first number is negative."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.driver = Fragile(self._run)
        self.device = Device("cpu", driver=self.driver)
        self.module: Module = load(bundle_of(ADD), self.device)

    def _run(self, run: CpuRun) -> None:
        assert self.gate.wait(PATIENCE)
        if run.regions["x"].data.view("f4")[0] < 0:
            raise FaultError("add-any: element 5 of x is outside", kernel="add-any")
        add(run)

    def op(self, number: float) -> DeviceOp[Any]:
        return with_context(
            lambda ctx: self.module.add(
                np.zeros(4, np.float32), np.full(4, number, np.float32), ones(4), stream=ctx
            )
        )


@pytest.fixture
def lab() -> Iterator[Lab]:
    made = Lab()
    with use_device(made.device):
        yield made
    made.driver.forget()


def test_every_wait_ends_with_the_loss(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    """Four streams, twelve futures: one kernel fails, and whatever was not done by then is lost
    with it.
    """
    before = Tensor.uninitialized((4,), "f32", driver=lab.driver, ordinal=-1, stream=0)
    futures = [lab.op(-1.0 if number == 5 else 1.0).future() for number in range(12)]
    lab.gate.set()
    errors = [future.exception(PATIENCE) for future in futures]
    failed = errors[5]
    assert isinstance(failed, ContextLostError)
    assert all(isinstance(error, ContextLostError | None) for error in errors)
    assert (failed.device, failed.op.partition(",")[0]) == (-1, "with_context")
    for later in (
        lambda: lab.op(1.0).sync(),
        lab.device.sync,
        lambda: lab.module.add(np.zeros(4, np.float32), ones(4), ones(4)),
    ):
        with pytest.raises(ContextLostError, match=SINCE) as caught:
            later()
        assert (caught.value.again, caught.value.kernel) == (True, "add-any")
    with caplog.at_level(logging.DEBUG):
        del before
        gc.collect()
        assert COMPLETIONS.drain(PATIENCE)
    assert caplog.text == ""


def test_graphs_of_a_lost_device(caplog: pytest.LogCaptureFixture) -> None:
    gpu = Gpu()
    z, x, y = gpu.tensor(), gpu.tensor(), gpu.tensor()
    device = Device(0, driver=gpu.driver)
    graph = gpu.module.ops.add(z, x, y).graph_on(gpu.stream)
    gpu.driver.fail["synchronize_device"] = "CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(ContextLostError):
        device.sync()
    for use in (
        graph.replay,
        graph.launch().sync,
        lambda: as_op(1).graph_on(Stream.borrow_raw(7, driver=gpu.driver)),
    ):
        with (
            pytest.raises(
                ContextLostError,
                match="the context of device 0 is lost since synchronize_device gave",
            ),
            use_device(device),
        ):
            use()
    with caplog.at_level(logging.DEBUG):
        graph.close()
        del graph, z, x, y
        gc.collect()
        assert COMPLETIONS.drain(PATIENCE)
    assert caplog.text == ""
