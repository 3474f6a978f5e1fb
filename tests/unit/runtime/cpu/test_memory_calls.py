"""Copies in stream order, pools, and errors that follow events, on the cpu device."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cpu_samples import device, fails, later, ones
from tests.waiting import Gate
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.device.seam import CopyKind
from tilec_runtime.errors import DriverError, FaultError

CPU = -1


def host(*values: int) -> np.ndarray:
    return np.array(values, np.uint8)


def test_copies_wait_for_their_turn() -> None:
    gate = Gate()
    driver = CpuDriver(pace=gate)
    stream = driver.create_stream(CPU)
    a, b = (driver.allocate(CPU, 4, stream) for _ in range(2))
    source, target = host(1, 2, 3, 4), host(0, 0, 0, 0)
    gate.open.clear()
    driver.copy_async(CPU, a, source.ctypes.data, 4, stream, CopyKind.TO_DEVICE)
    driver.copy_async(CPU, b, a, 4, stream, CopyKind.ON_DEVICE)
    driver.copy_async(CPU, target.ctypes.data, b, 4, stream, CopyKind.TO_HOST)
    source[0] = 9  # read when its turn comes, not when it is enqueued
    assert target.tolist() == [0, 0, 0, 0]
    gate.open.set()
    driver.synchronize(CPU, stream)
    assert target.tolist() == [9, 2, 3, 4]
    with pytest.raises(DriverError, match=r"5 bytes at .* are not in one allocation"):
        driver.copy_async(CPU, a, source.ctypes.data, 5, stream, CopyKind.TO_DEVICE)


def test_a_stream_that_waits_for_failed_work_fails_with_it() -> None:
    module, driver = device(fails)
    other, event = driver.create_stream(CPU), driver.create_event(CPU, timed=False)
    later(module, 0, ones(4), ones(4), ones(4), alpha=-1.0)
    driver.record_event(CPU, event, 0)
    driver.wait_event(CPU, other, event)
    with pytest.raises(FaultError, match=r"^add-any: it went wrong"):
        driver.synchronize(CPU, other)
    with pytest.raises(FaultError, match=r"^add-any: it went wrong"):
        driver.synchronize(CPU, 0)
    driver.synchronize(CPU, other)


def test_pinned_memory_and_the_machines_own() -> None:
    driver = CpuDriver()
    address = driver.allocate_pinned(CPU, 8)
    driver.free_pinned(CPU, address)
    with pytest.raises(
        DriverError, match="is no allocation of the cpu device, or was freed before"
    ):
        driver.free_pinned(CPU, address)
    address = driver.allocate(CPU, 100, None)
    assert driver.allocation(address + 99) == (address, 100)
    assert driver.allocation(address + 100) is None
    driver.free(CPU, address, None)
    free, total = driver.memory_info(CPU)
    assert 0 < free <= total
    assert driver.pool_stats(CPU, driver.default_pool(CPU)).used == 0
