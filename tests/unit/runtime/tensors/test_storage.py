"""Memory is given back after its last use, in stream order, whoever drops the last reference;
conflicting uses wait for each other.
"""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

from tests.waiting import PATIENCE, Gate, joined
from tilec.testing.fake_driver import H200, FakeDriver
from tilec_runtime import Stream
from tilec_runtime.cpu.driver import POISON, CpuDriver
from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.device.frees import FREES
from tilec_runtime.device.marks import Mark, line_of
from tilec_runtime.device.seam import CopyKind
from tilec_runtime.errors import DriverError, OutOfMemoryError, SchedulingError
from tilec_runtime.tensors.storage import Storage, freeing_stream

CPU = -1
ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


def steps(driver: FakeDriver) -> list[tuple[str, int | None]]:
    """Calls and streams since the last look."""
    found = [(step.call, step.stream) for step in driver.steps]
    driver.steps.clear()
    return found


# --- frees
# -------------------------------------------------------------------------------------------------------------------------


def test_memory_of_one_stream_is_freed_there_without_an_event(driver: FakeDriver) -> None:
    storage = Storage.allocate(driver, 0, 64, 5)
    storage.pass_through(5, write=True)
    storage.pass_through(5, write=False)
    del storage
    assert steps(driver) == [("allocate", 5), ("free", 5)]


def test_memory_is_freed_after_its_last_uses_on_all_streams(driver: FakeDriver) -> None:
    storage = Storage.allocate(driver, 0, 64, 5)
    storage.pass_through(6, write=False)
    Mark(driver, storage.line(6))
    storage.pass_through(7, write=False)
    steps(driver)
    del storage
    home = freeing_stream(driver, 0)
    assert steps(driver) == [("wait", home), ("record", 7), ("wait", home), ("free", home)]


def test_memory_outlives_the_stream_that_it_came_from(driver: FakeDriver) -> None:
    with Stream(driver=driver) as stream:
        handle = stream.handle
        storage = Storage.allocate(driver, 0, 64, handle)
    assert steps(driver) == [("allocate", handle), ("record", handle)]
    del storage
    home = freeing_stream(driver, 0)
    assert steps(driver) == [("wait", home), ("free", home)], (
        "nothing is asked of a stream that is gone"
    )


def test_a_new_stream_of_an_old_name_starts_from_nothing(driver: FakeDriver) -> None:
    driver._streams = itertools.repeat(0x50)
    first = Stream(driver=driver)
    storage = Storage.allocate(driver, 0, 64, 0x50)
    assert storage.uses.sole is storage.line(0x50)
    first.close()
    second = Stream(driver=driver)
    assert storage.uses.sole is not storage.line(0x50)
    steps(driver)
    storage.pass_through(second.handle, write=True)
    assert steps(driver) == [("wait", 0x50)]
    assert storage.uses.sole is storage.line(0x50)


def test_a_free_that_fails_is_logged_and_raises_nowhere(
    driver: FakeDriver, caplog: pytest.LogCaptureFixture
) -> None:
    storage = Storage.allocate(driver, 0, 64, 5)
    driver.fail["free"] = "CUDA_ERROR_INVALID_VALUE"
    del storage
    assert "memory could not be given back" in caplog.text
    assert "CUDA_ERROR_INVALID_VALUE" in caplog.text


def test_nothing_is_freed_twice_and_nothing_of_no_bytes_is_freed(driver: FakeDriver) -> None:
    storage = Storage.allocate(driver, 0, 64, 5)
    assert storage._release.due
    storage._release()
    storage._release()
    assert not storage._release.due
    del storage
    empty = Storage.allocate(driver, 0, 0, 5)
    assert empty.address == 0
    del empty
    assert steps(driver) == [("allocate", 5), ("free", 5)]


def test_an_allocation_on_a_stream_that_is_refused_is_given_back(driver: FakeDriver) -> None:
    with pytest.raises(SchedulingError, match="per-thread default stream"):
        Storage.allocate(driver, 0, 64, 2)
    assert [call for call, _ in steps(driver)] == ["allocate", "free"]


def test_frees_wait_for_the_end_of_a_capture(driver: FakeDriver) -> None:
    first, second = (Storage.allocate(driver, 0, 64, stream) for stream in (5, 6))
    steps(driver)
    driver.begin_capture(0, 5)
    del first, second
    FREES.drain()
    assert steps(driver) == [("free", 6)], "the other one would become a part of the graph"
    driver.end_capture(0, 5)
    FREES.drain()
    assert steps(driver) == [("free", 5)]


def test_owners_of_foreign_memory_wait_for_the_end_of_a_capture(driver: FakeDriver) -> None:
    class Owner:
        pass

    owner = Owner()
    gone = weakref.ref(owner)
    storage = Storage(driver, 0, 0x1000, 64, owner=owner)
    storage.pass_through(5, write=True)
    del owner
    driver.begin_capture(0, 5)
    del storage
    FREES.drain()
    assert gone() is not None
    driver.end_capture(0, 5)
    FREES.drain()  # makes the mark
    assert COMPLETIONS.drain(PATIENCE)
    assert gone() is None


def test_threads_drop_the_last_references() -> None:
    driver = FakeDriver()
    shared = [Storage.allocate(driver, 0, 64, 5 + number % 3) for number in range(300)]

    def use_and_drop() -> None:
        while shared:
            try:
                storage = shared.pop()
            except IndexError:
                return
            storage.pass_through(7, write=False)
            del storage

    threads = [threading.Thread(target=use_and_drop) for _ in range(4)]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert driver.calls.count("free") == 300
    assert driver._memory == {}


def test_the_process_ends_with_memory_in_use() -> None:
    code = (
        "from tilec_runtime.cpu.driver import cpu_driver\n"
        "from tilec_runtime.tensors.storage import Storage\n"
        "driver = cpu_driver()\n"
        "keep = [Storage.allocate(driver, -1, 64, driver.create_stream(-1)) for _ in range(5)]\n"
        "keep[0].pass_through(0, write=False)\n"
        "keep.append(keep)\n"
        "print('end')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


# --- order
# -------------------------------------------------------------------------------------------------------------------------


def test_conflicting_uses_wait_and_others_do_not(driver: FakeDriver) -> None:
    storage = Storage.allocate(driver, 0, 64, 5)
    steps(driver)
    storage.pass_through(5, write=True)
    assert steps(driver) == []
    storage.pass_through(6, write=False)
    assert steps(driver) == [("record", 5), ("wait", 6)]
    storage.pass_through(7, write=False)
    assert steps(driver) == [("wait", 7)], "one event for all who wait for a use"
    storage.pass_through(6, write=False)
    assert steps(driver) == []
    storage.pass_through(7, write=True)
    assert steps(driver) == [("record", 6), ("wait", 7)]
    storage.pass_through(7, write=True)
    assert steps(driver) == []


def test_a_use_behind_its_mark_is_waited_for(driver: FakeDriver) -> None:
    storage = Storage.allocate(driver, 0, 64, 5)
    storage.pass_through(6, write=False)
    storage.pass_through(5, write=False)  # behind the mark that 6 waits for
    steps(driver)
    storage.pass_through(6, write=True)
    assert steps(driver) == [("record", 5), ("wait", 6)]


def test_a_stream_that_is_another_one_in_each_thread_is_refused(driver: FakeDriver) -> None:
    storage = Storage.allocate(driver, 0, 64, 5)
    with pytest.raises(
        SchedulingError,
        match=r"^the per-thread default stream \(handle 2\) cannot use tensors of tilec",
    ):
        storage.pass_through(2, write=False)


def test_events_are_used_again(driver: FakeDriver) -> None:
    first = Mark(driver, line_of(driver, 0, 5))
    event = first.event
    del first
    assert Mark(driver, line_of(driver, 0, 6)).event == event
    assert driver.calls.count("create_event") == 1


def test_streams_of_two_devices_are_told_apart() -> None:
    driver = FakeDriver(devices=(H200, dataclasses.replace(H200, ordinal=1)))
    storage = Storage.allocate(driver, 0, 64, 5)
    storage.use(storage.line(5, 1), write=False)
    assert steps(driver) == [("allocate", 5), ("record", 5), ("wait", 5)]
    storage.pass_through(5, write=True)
    assert steps(driver) == [("record", 5), ("wait", 5)], (
        "the stream of the same handle on the other device is another stream"
    )
    storage.use(storage.line(5, 1), write=False)
    steps(driver)
    del storage
    home = freeing_stream(driver, 0)
    assert steps(driver) == [("record", 5), ("wait", home), ("free", home)]


def late_reader(frees: str) -> list[int]:
    """What a stream reads that is held up until the memory was given up by its owner, on a device
    that fills freed memory.
    """
    gate = Gate()
    driver = CpuDriver(poison=True, pace=gate)
    one, two = (driver.create_stream(CPU) for _ in range(2))
    storage = Storage.allocate(driver, CPU, 4, one)
    driver.fill(CPU, storage.address, 7, 4, one)
    driver.synchronize(CPU, one)
    gate.open.clear()
    target = np.zeros(4, np.uint8)
    storage.pass_through(two, write=False)
    driver.copy_async(CPU, target.ctypes.data, storage.address, 4, two, CopyKind.TO_HOST)
    if frees == "at once":
        storage._release._calls.clear()
        driver._free(storage.address)
    del storage
    gate.open.set()
    driver.synchronize(CPU, two)
    return target.tolist()


def test_a_late_reader_still_finds_what_it_reads() -> None:
    assert late_reader("at once") == [POISON] * 4, "the test sees memory that is freed too early"
    assert late_reader("in order") == [7] * 4


def test_the_host_waits_for_what_it_reads(driver: FakeDriver) -> None:
    gate = Gate()
    cpu = CpuDriver(pace=gate)
    stream = cpu.create_stream(CPU)
    storage = Storage.allocate(cpu, CPU, 4, stream)
    gate.open.clear()
    cpu.fill(CPU, storage.address, 9, 4, stream)
    threading.Timer(0.05, gate.open.set).start()
    storage.sync(write=False)
    assert cpu._allocations.part(storage.address, 4).tolist() == [9] * 4


# --- memory of others
# --------------------------------------------------------------------------------------------------------------


class Owner:
    pass


def test_the_owner_of_foreign_memory_lives_until_the_last_use_is_over(driver: FakeDriver) -> None:
    owner, seen = Owner(), []
    storage = Storage(driver, 0, 0x1000, 64, owner=owner)
    storage.pass_through(5, write=False)
    weakref.finalize(owner, seen.append, "gone")
    del owner
    driver._streams, event = itertools.repeat(0x77), 0x77
    driver.pending.add(event)
    del storage
    assert not COMPLETIONS.drain(0.01)
    assert seen == []
    driver.pending.clear()
    assert COMPLETIONS.drain(PATIENCE)
    assert seen == ["gone"]
    assert "free" not in driver.calls


def test_an_owner_whose_memory_was_never_used_goes_at_once(driver: FakeDriver) -> None:
    owner, seen = Owner(), []
    weakref.finalize(owner, seen.append, "gone")
    storage = Storage(driver, 0, 0x1000, 64, owner=owner)
    del owner
    assert seen == []
    del storage
    assert seen == ["gone"]


# --- out of memory
# -----------------------------------------------------------------------------------------------------------------


def test_out_of_memory_says_what_was_asked_and_what_there_is(driver: FakeDriver) -> None:
    kept = Storage.allocate(driver, 0, 100, 5)
    driver.fail["allocate"] = "CUDA_ERROR_OUT_OF_MEMORY"
    with pytest.raises(OutOfMemoryError) as caught:
        Storage.allocate(driver, 0, 1 << 20, 5)
    error = caught.value
    assert error.what == (
        "device 0 (Fake H200) has no memory of 1048576 bytes: the pool uses 100 of 100 that it has reserved, "
        f"and {2**30 - 100} of the device's {2**30} are free"
    )
    assert (error.requested, error.used, error.reserved, error.free, error.total) == (
        1 << 20,
        100,
        100,
        2**30 - 100,
        2**30,
    )
    assert (error.result, error.code) == ("CUDA_ERROR_OUT_OF_MEMORY", 2)
    assert error.cause
    assert error.fix
    assert isinstance(error, MemoryError)
    driver.fail.clear()
    Storage.allocate(driver, 0, 1 << 20, 5)
    assert kept.address


def test_other_refusals_stay_what_they_are(driver: FakeDriver) -> None:
    driver.fail["allocate"] = "CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(DriverError, match="CUDA_ERROR_ILLEGAL_ADDRESS") as caught:
        Storage.allocate(driver, 0, 64, 5)
    assert not isinstance(caught.value, OutOfMemoryError)
