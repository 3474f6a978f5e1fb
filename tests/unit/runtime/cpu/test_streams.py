"""The cpu device's streams, events and memory, and what becomes of them when something fails or is
interrupted.
"""

from __future__ import annotations

import gc
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ADD, device, failed, fails, later, ones
from tests.runtime_samples import bundle_of
from tests.waiting import PATIENCE
from tilec_runtime import Device, DeviceBuffer, Event, Stream, load
from tilec_runtime.cpu.driver import CPU, CpuDriver, cpu_driver
from tilec_runtime.cpu.launch import CpuRun
from tilec_runtime.device.devices import driver_of, find_device
from tilec_runtime.errors import (
    DriverError,
    FaultError,
    InternalError,
    NoDeviceError,
    SchedulingError,
)

ROOT = Path(__file__).resolve().parents[4]

# --- streams
# -----------------------------------------------------------------------------------------------------------------------


class Gate:
    """A kernel that waits until it is let go, and remembers what ran."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.started = threading.Event()
        self.ran: list[float] = []

    def __call__(self, run: CpuRun) -> None:
        self.started.set()
        self.hold()
        self.ran.append(float(run.arguments[4]))

    def hold(self) -> None:
        assert self.open.wait(PATIENCE)


def test_work_of_one_stream_is_done_in_order_and_that_of_two_is_not_ordered() -> None:
    gate = Gate()
    module, driver = device(
        lambda run: gate(run) if run.arguments[4] < 10 else gate.ran.append(float(run.arguments[4]))
    )
    with Stream("cpu", driver=driver) as one, Stream("cpu", driver=driver) as two:
        for number in (1.0, 2.0, 3.0):
            later(module, one, ones(4), ones(4), ones(4), alpha=number)
        assert gate.started.wait(PATIENCE)
        later(module, two, ones(4), ones(4), ones(4), alpha=10.0)
        two.sync()
        assert gate.ran == [10.0]
        gate.open.set()
        one.sync()
        assert gate.ran == [10.0, 1.0, 2.0, 3.0]


def test_arguments_live_until_the_launch_is_done() -> None:
    gate = Gate()
    module, driver = device(gate)
    z, x = ones(4), ones(4)
    seen = weakref.ref(x)
    buffer = DeviceBuffer.from_host(ones(4), "cpu", driver=driver)
    later(module, 0, z, x, buffer)
    buffer.free()
    del x
    gc.collect()
    assert seen() is not None
    gate.open.set()
    driver.synchronize(-1, 0)
    gc.collect()
    assert seen() is None


def test_an_error_comes_out_of_the_wait_and_drops_what_was_queued_behind_it() -> None:
    gate = Gate()
    module, driver = device(lambda run: gate(run) if run.arguments[4] == 0 else fails(run))
    z = ones(4)
    later(module, 0, ones(4), ones(4), ones(4), alpha=0.0)
    later(module, 0, ones(4), ones(4), ones(4), alpha=-1.0)
    later(module, 0, z, ones(4), ones(4), alpha=5.0)
    gate.open.set()
    with pytest.raises(FaultError, match=r"^add-any: it went wrong"):
        driver.synchronize(-1, 0)
    assert z.tolist() == [1, 1, 1, 1]
    driver.synchronize(-1, 0)  # it is told once
    later(module, 0, z, ones(4), ones(4), alpha=5.0)
    driver.synchronize(-1, 0)
    assert z.tolist() == [6, 6, 6, 6]


def test_an_error_comes_out_of_the_next_call_on_its_stream_and_of_no_other() -> None:
    module, driver = device(fails)
    buffer = DeviceBuffer((4,), "f32", "cpu", driver=driver)

    def fail(stream: Any) -> None:
        later(module, stream, ones(4), ones(4), ones(4), alpha=-1.0)
        assert driver._queues[stream.handle].wait_for(1, PATIENCE)

    with Stream("cpu", driver=driver) as stream:
        fail(stream)
        later(module, 0, ones(4), ones(4), ones(4))
        driver.synchronize(-1, 0)
        with pytest.raises(FaultError):
            later(module, stream, ones(4), ones(4), ones(4))
        later(module, stream, ones(4), ones(4), ones(4))
        stream.sync()
    for call in (lambda s: buffer.to_host(s), lambda s: buffer.fill(0, s)):
        with Stream("cpu", driver=driver) as stream:
            fail(stream)
            with pytest.raises(FaultError):
                call(stream)


def test_bugs_of_the_interpreter_are_internal_errors() -> None:
    def broken(run: CpuRun) -> None:
        raise RuntimeError("oh")

    def greedy(run: CpuRun) -> None:
        raise MemoryError("Unable to allocate 1.00 PiB")

    for run, kind, words in (
        (broken, InternalError, "the cpu device failed at it: RuntimeError: oh"),
        (greedy, DriverError, "1.00 PiB"),
    ):
        module, driver = device(run)
        later(module, 0, ones(4), ones(4), ones(4))
        with pytest.raises(kind, match=f"^add-any: {words}" if kind is InternalError else words):
            driver.synchronize(-1, 0)


def test_streams_that_are_none_of_the_device() -> None:
    module, driver = device()
    with pytest.raises(
        SchedulingError,
        match=r"^add-any: stream 0x77 is no stream of the cpu device\n  fix: pass 0 or a tilec_runtime.Stream",
    ):
        later(module, 0x77, ones(4), ones(4), ones(4))
    stream = Stream("cpu", driver=driver)
    handle = stream.handle
    z = ones(4)
    later(module, handle, z, ones(4), ones(4))
    stream.close()
    with pytest.raises(SchedulingError, match="is no stream of the cpu device"):
        later(module, handle, z, ones(4), ones(4))


def test_memory_is_filled_in_order_and_given_back_once() -> None:
    gate = Gate()
    module, driver = device(gate)
    buffer = DeviceBuffer.from_host(ones(4), "cpu", driver=driver)
    later(module, 0, ones(4), ones(4), ones(4))
    buffer.fill(0)
    assert np.asarray(buffer).tolist() == [1, 1, 1, 1]
    gate.open.set()
    assert buffer.to_host().tolist() == [0, 0, 0, 0]
    address = buffer.ptr
    with pytest.raises(
        DriverError, match=r"17 bytes at 0x.* are not in one allocation of the cpu device"
    ):
        driver.fill(-1, address, 0, 17, 0)
    buffer.free()
    with pytest.raises(DriverError, match=r"is no allocation of the cpu device"):
        driver.free(-1, address, None)
    with pytest.raises(
        DriverError, match=r"^[0-9]+ bytes cannot be allocated on the cpu device"
    ) as caught:
        driver.allocate(-1, 2**60, None)
    assert caught.value.result == "CUDA_ERROR_OUT_OF_MEMORY"


def test_a_thread_without_work_ends() -> None:
    module, driver = device()
    later(module, 0, ones(4), ones(4), ones(4))
    driver.synchronize(-1, 0)
    thread = driver._queues[0]._thread
    if thread is not None:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    later(module, 0, ones(4), ones(4), ones(4))  # and another one comes
    driver.synchronize(-1, 0)


def test_an_interrupted_wait_gives_the_work_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    started = threading.Event()

    def endless(run: CpuRun) -> None:
        started.set()
        assert run.options.cancelled is not None
        while not run.options.cancelled():
            time.sleep(0.001)
        asked.append(True)
        raise FaultError("stopped")

    module, driver = device(endless)
    for _ in range(2):
        later(module, 0, ones(4), ones(4), ones(4))
    queue = driver._queues[0]
    assert started.wait(PATIENCE)

    def interrupt(number: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(queue, "wait_for", interrupt)
    with pytest.raises(KeyboardInterrupt):
        driver.synchronize(-1, 0)
    monkeypatch.undo()
    driver.synchronize(-1, 0)
    assert asked == [True]  # the second never started


# --- events
# ------------------------------------------------------------------------------------------------------------------------


def test_an_event_orders_two_streams_and_measures_time() -> None:
    gate = Gate()
    module, driver = device(
        lambda run: gate(run) if run.arguments[4] < 10 else gate.ran.append(float(run.arguments[4]))
    )
    with Stream("cpu", driver=driver) as one, Stream("cpu", driver=driver) as two:
        with Event("cpu", driver=driver) as start, Event("cpu", driver=driver) as end:
            assert start.reached
            start.hold(two)  # never recorded: nothing to wait for
            start.record(one)
            later(module, one, ones(4), ones(4), ones(4), alpha=1.0)
            end.record(one)
            end.hold(two)
            later(module, two, ones(4), ones(4), ones(4), alpha=10.0)
            assert gate.started.wait(PATIENCE)
            assert (start.reached, end.reached) == (True, False)
            with pytest.raises(
                SchedulingError, match=r"^an event was not reached yet, or never recorded"
            ):
                end.since(start)
            time.sleep(0.05)
            assert gate.ran == []
            gate.open.set()
            end.sync()
            assert end.since(start) > 0.04
        two.sync()
    assert gate.ran == [1.0, 10.0]


def test_a_mark_behind_a_failed_launch_is_reached() -> None:
    module, driver = device(fails)
    with Event("cpu", driver=driver) as event:
        later(module, 0, ones(4), ones(4), ones(4), alpha=-1.0)
        event.record(0)
        event.sync()
        assert event.reached
    with pytest.raises(FaultError):
        driver.synchronize(-1, 0)
    event.close()
    with pytest.raises(SchedulingError, match=r"^the event is closed"):
        event.sync()
    with pytest.raises(
        SchedulingError, match=r"^0x5 is no event of the cpu device, or was given back"
    ):
        driver.event_reached(-1, 5)


def test_waits_for_events_can_be_interrupted() -> None:
    gate = Gate()
    module, driver = device(gate)
    with (
        Stream("cpu", driver=driver) as one,
        Stream("cpu", driver=driver) as two,
        Event("cpu", driver=driver) as event,
    ):
        later(module, one, ones(4), ones(4), ones(4))
        event.record(one)
        event.hold(two)
        queue = driver._queues[two.handle]
        queue.give_up()
        assert queue.join(PATIENCE)
        gate.open.set()
        one.sync()


# --- the device
# ---------------------------------------------------------------------------------------------------------------------


def test_names_of_the_device() -> None:
    assert find_device("cpu") is CPU
    assert driver_of("cpu") is driver_of(CPU) is cpu_driver()
    assert str(CPU) == "the cpu device"
    with pytest.raises(NoDeviceError, match=r"^there is no device 0 here: this is the cpu device"):
        load(bundle_of(ADD), 0, driver=CpuDriver())


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


def test_work_that_comes_while_a_device_is_waited_for_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else threads that go on launching would keep a wait for the device from its end."""
    _, driver = device()
    mine = Device("cpu", driver=driver)
    gate, waits = Gate(), threading.Event()
    with Stream(mine) as one, Stream(mine) as two:
        first, second = driver._queues[one.handle], driver._queues[two.handle]

        def feed(_: object) -> None:
            assert waits.wait(PATIENCE)
            second.put(lambda _: gate.hold())

        def wait_for(number: int, seconds: float | None = None) -> bool:
            waits.set()
            return type(first).wait_for(first, number, seconds)

        monkeypatch.setattr(first, "wait_for", wait_for)
        first.put(feed)
        try:
            mine.sync()
            assert not second.idle
        finally:
            gate.open.set()
