"""Defects that runtimes of this kind have had, each with what it guards; those that belong to one
part are tested there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import (
    Device,
    Stream,
    Tensor,
    api,
    as_op,
    use_device,
)
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.device.completion import COMPLETIONS

CPU = -1


def tensor(driver: CpuDriver, *shape: int) -> Tensor:
    made = Tensor.uninitialized(shape, "f32", driver=driver, ordinal=CPU, stream=0)
    array = np.asarray(made)
    array[...] = np.arange(array.size, dtype=np.float32).reshape(shape)
    return made


@pytest.mark.parametrize(
    "make", [lambda: api.rand(1000), lambda: api.randn((8, 8)), lambda: api.randn(64, dtype="f16")]
)
def test_random_numbers_are_made_in_the_order_of_their_ops_stream(make: Callable[[], Any]) -> None:
    """Not on the legacy default stream, which streams here do not wait for."""
    driver = FakeDriver()
    device = Device(0, driver=driver)
    with use_device(device), Stream(device) as stream:
        handle = stream.handle
        kept = make().sync_on(stream)
        steps = [
            step for step in driver.steps if step.call in ("allocate", "launch", "copy", "fill")
        ]
        assert "launch" in {step.call for step in steps}
        assert {step.stream for step in steps} == {handle}
        del kept


def test_streams_are_opened_and_closed_by_many_threads_at_once() -> None:
    driver = CpuDriver()
    device = Device("cpu", driver=driver)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                with use_device(device), Stream(device) as stream:
                    assert as_op(2).map(lambda x: x + 1).sync_on(stream) == 3
                    _ = tensor(driver, 8)
        except BaseException as error:  # noqa: BLE001 - for the thread of the test
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert errors == []
    assert COMPLETIONS.drain(5)
