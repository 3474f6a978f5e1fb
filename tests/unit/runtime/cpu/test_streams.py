"""The cpu device's streams, events and memory, and what becomes of them when something fails."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests.cpu_samples import device, failed, fails, later, ones
from tests.waiting import Gate, at_once, joined
from tilec_runtime import Device, DeviceBuffer, Event, Stream, api, as_op, use_device
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.cpu.launch import CpuRun
from tilec_runtime.device.seam import CopyKind
from tilec_runtime.errors import DriverError, FaultError, InternalError, SchedulingError

CPU = -1


def held(run: Callable[[CpuRun], None] = lambda run: None) -> tuple[Any, Any, Gate]:
    """A module and its driver, and a gate that launches with alpha 0 wait at."""
    gate = Gate()
    gate.open.clear()
    return *device(lambda made: run(made) if made.arguments[4] else gate()), gate


def test_arguments_live_until_the_launch_is_done() -> None:
    module, driver, gate = held()
    x = ones(4)
    seen = weakref.ref(x)
    buffer = DeviceBuffer.from_host(ones(4), "cpu", driver=driver)
    later(module, 0, ones(4), x, buffer, alpha=0.0)
    buffer.free()
    del x
    gc.collect()
    assert seen() is not None
    gate.open.set()
    driver.synchronize(-1, 0)
    gc.collect()
    assert seen() is None


def test_an_error_comes_out_of_the_wait_and_drops_what_was_queued_behind_it() -> None:
    module, driver, gate = held(fails)
    z = ones(4)
    for alpha in (0.0, -1.0, 5.0):
        later(module, 0, z, ones(4), ones(4), alpha=alpha)
    gate.open.set()
    with pytest.raises(FaultError, match=r"^add-any: it went wrong"):
        driver.synchronize(-1, 0)
    assert z.tolist() == [1, 1, 1, 1]
    driver.synchronize(-1, 0)  # it is told once
    later(module, 0, z, ones(4), ones(4), alpha=5.0)
    driver.synchronize(-1, 0)
    assert z.tolist() == [6, 6, 6, 6]


@pytest.mark.parametrize(
    "call",
    [
        lambda module, buffer, stream: later(module, stream, ones(4), ones(4), ones(4)),
        lambda module, buffer, stream: buffer.to_host(stream),
        lambda module, buffer, stream: buffer.fill(0, stream),
    ],
)
def test_an_error_comes_out_of_the_next_call_on_its_stream_and_of_no_other(call: Any) -> None:
    module, driver = device(fails)
    buffer = DeviceBuffer((4,), "f32", "cpu", driver=driver)
    with Stream("cpu", driver=driver) as stream:
        failed(module, driver, stream)
        call(module, buffer, 0)
        driver.synchronize(-1, 0)
        with pytest.raises(FaultError):
            call(module, buffer, stream)
        call(module, buffer, stream)
        stream.sync()


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            RuntimeError("oh"),
            InternalError,
            "^add-any: the cpu device failed at it: RuntimeError: oh",
        ),
        (MemoryError("Unable to allocate 1.00 PiB"), DriverError, "1.00 PiB"),
    ],
)
def test_bugs_of_the_interpreter_are_internal_errors(
    error: Exception, kind: type[Exception], words: str
) -> None:
    def broken(run: CpuRun) -> None:
        raise error

    module, driver = device(broken)
    later(module, 0, ones(4), ones(4), ones(4))
    with pytest.raises(kind, match=words):
        driver.synchronize(-1, 0)


def test_streams_that_are_none_of_the_device() -> None:
    module, driver = device()
    stream = Stream("cpu", driver=driver)
    gone = stream.handle
    stream.close()
    for handle in (0x77, gone):
        with pytest.raises(
            SchedulingError,
            match=rf"^add-any: stream {handle:#x} is no stream of the cpu device\n  fix: pass 0 or a",
        ):
            later(module, handle, ones(4), ones(4), ones(4))


def test_memory_that_is_not_the_devices() -> None:
    driver = CpuDriver()
    address, pinned = driver.allocate(CPU, 100, None), driver.allocate_pinned(CPU, 8)
    assert driver.allocation(address + 99) == (address, 100)
    assert driver.allocation(address + 100) is None
    driver.free(CPU, address, None)
    driver.free_pinned(CPU, pinned)
    host = ones(4).ctypes.data

    def copy(target: int, source: int, kind: CopyKind) -> None:
        driver.copy_async(CPU, target, source, 16, 0, kind)

    for call, words in (
        (
            lambda: driver.fill(CPU, address, 0, 17, 0),
            r"17 bytes at 0x.* are not in one allocation",
        ),
        (lambda: copy(address, host, CopyKind.TO_DEVICE), "are not in one allocation"),
        (lambda: copy(host, address, CopyKind.TO_HOST), "are not in one allocation"),
        (lambda: driver.free(CPU, address, None), "is no allocation of the cpu device"),
        (
            lambda: driver.free_pinned(CPU, pinned),
            "is no allocation of the cpu device, or was freed",
        ),
        (lambda: driver.allocate(CPU, 2**60, None), r"^[0-9]+ bytes cannot be allocated on"),
    ):
        with pytest.raises(DriverError, match=words):
            call()
    free, total = driver.memory_info(CPU)
    assert 0 < free <= total
    assert driver.pool_stats(CPU, driver.default_pool(CPU)).used == 0


def test_an_event_orders_two_streams_and_measures_time() -> None:
    ran: list[float] = []
    module, driver, gate = held(lambda run: ran.append(run.arguments[4]))
    with (
        Stream("cpu", driver=driver) as one,
        Stream("cpu", driver=driver) as two,
        Event("cpu", driver=driver) as start,
        Event("cpu", driver=driver) as end,
    ):
        assert start.reached
        start.hold(two)  # never recorded: nothing to wait for
        start.record(one)
        later(module, one, ones(4), ones(4), ones(4), alpha=0.0)
        later(module, one, ones(4), ones(4), ones(4), alpha=1.0)
        end.record(one)
        end.hold(two)
        later(module, two, ones(4), ones(4), ones(4), alpha=2.0)
        start.sync()
        assert (start.reached, end.reached) == (True, False)
        with pytest.raises(SchedulingError, match=r"^an event was not reached yet, or never"):
            end.since(start)
        gate.open.set()
        two.sync()
        assert end.since(start) > 0
    assert ran == [1.0, 2.0]


def test_an_event_behind_a_failed_launch_is_reached() -> None:
    module, driver = device(fails)
    event = Event("cpu", driver=driver)
    later(module, 0, ones(4), ones(4), ones(4), alpha=-1.0)
    event.record(0)
    event.sync()
    assert event.reached
    with pytest.raises(FaultError):
        driver.synchronize(-1, 0)
    event.close()
    with pytest.raises(SchedulingError, match=r"^the event is closed"):
        event.sync()
    with pytest.raises(SchedulingError, match=r"^0x5 is no event of the cpu device, or was given"):
        driver.event_reached(-1, 5)


def test_a_device_waits_for_all_of_its_streams() -> None:
    module, driver = device(fails)
    mine = Device("cpu", driver=driver)
    z, y = ones(4), ones(4)
    with Stream(mine) as stream:
        later(module, 0, z, ones(4), ones(4), alpha=2.0)
        later(module, stream, y, ones(4), ones(4), alpha=3.0)
        mine.sync()
        assert (z.tolist(), y.tolist()) == ([3] * 4, [4] * 4)
        failed(module, driver, stream)
        with pytest.raises(FaultError, match=r"^add-any: it went wrong"):
            mine.sync()
        mine.sync()


def test_a_device_does_not_wait_for_work_that_comes_meanwhile() -> None:
    module, driver = device()
    done = threading.Event()

    def feed() -> None:
        while not done.is_set():
            later(module, 0, ones(4), ones(4), ones(4))

    thread = threading.Thread(target=feed)
    thread.start()
    for _ in range(5):
        Device("cpu", driver=driver).sync()
    done.set()
    joined(thread)
    driver.synchronize(-1, 0)


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


def test_streams_are_opened_and_closed_by_many_threads_at_once() -> None:
    cpu = Device("cpu", driver=CpuDriver())
    results: list[int] = []

    def work() -> None:
        for _ in range(20):
            with use_device(cpu), Stream(cpu) as stream:
                results.append(as_op(2).map(lambda x: x + 1).sync_on(stream))
                api.zeros(8).sync_on(stream)

    at_once(*[work] * 8)
    assert results == [3] * 160
