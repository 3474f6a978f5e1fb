"""Copies in stream order, pools, and errors that follow events, on the cpu device."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cpu_samples import device, later, ones
from tests.waiting import Gate
from tilec.testing.fake_driver import FakeDriver, FakeStep
from tilec_runtime.cpu.driver import POISON, CpuDriver
from tilec_runtime.device.seam import CopyKind, PoolStats
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


def test_memory_freed_before_its_last_use_is_seen() -> None:
    gate = Gate()
    driver = CpuDriver(poison=True, pace=gate)
    one, two = (driver.create_stream(CPU) for _ in range(2))
    address, target = driver.allocate(CPU, 2, one), host(0, 0)
    driver.fill(CPU, address, 7, 2, one)
    driver.synchronize(CPU, one)
    gate.open.clear()
    driver.copy_async(CPU, target.ctypes.data, address, 2, two, CopyKind.TO_HOST)
    driver._free(address)
    gate.open.set()
    driver.synchronize(CPU, two)
    assert target.tolist() == [POISON, POISON]


def test_a_stream_that_waits_for_failed_work_fails_with_it() -> None:
    def fails(run: object) -> None:
        raise FaultError("add: no")

    module, driver = device(fails)
    other, event = driver.create_stream(CPU), driver.create_event(CPU, timed=False)
    later(module, 0, ones(4), ones(4), ones(4))
    driver.record_event(CPU, event, 0)
    driver.wait_event(CPU, other, event)
    with pytest.raises(FaultError, match=r"^add: no"):
        driver.synchronize(CPU, other)
    with pytest.raises(FaultError, match=r"^add: no"):
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


def test_the_fake_driver_tells_the_order() -> None:
    driver = FakeDriver()
    pool = driver.create_pool(0, 5)
    address, event = driver.allocate(0, 4, 7, pool), driver.create_event(0)
    source = host(1, 2, 3, 4)
    driver.copy_async(0, address, source.ctypes.data, 4, 7, CopyKind.TO_DEVICE)
    driver.record_event(0, event, 7)
    driver.pending.add(event)
    assert not driver.event_reached(0, event)
    driver.wait_event(0, 8, event)
    assert driver.pool_stats(0, pool).used == 4
    assert driver.memory_info(0) == (2**30 - 4, 2**30)
    driver.free(0, address, 8)
    assert [(step.call, step.stream) for step in driver.steps] == [
        ("allocate", 7),
        ("copy", 7),
        ("record", 7),
        ("wait", 8),
        ("free", 8),
    ]
    assert driver.steps[-1] == FakeStep(call="free", stream=8, what=address)
    assert driver.pool_stats(0, pool) == PoolStats(
        used=0, reserved=0, used_high=4, reserved_high=4, release_threshold=5
    )
