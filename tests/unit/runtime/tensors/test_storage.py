"""Memory is given back after its last use, in stream order, whoever drops the last reference;
conflicting uses wait for each other.
"""

from __future__ import annotations

import dataclasses
import itertools
import weakref

import pytest

from tests.runtime_samples import steps
from tests.waiting import PATIENCE
from tilec.testing.fake_driver import H200, FakeDriver
from tilec_runtime import Stream
from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.device.frees import FREES
from tilec_runtime.device.lines import RecordedEvent
from tilec_runtime.errors import OutOfMemoryError, SchedulingError
from tilec_runtime.tensors.storage import Storage, freeing_stream


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


# --- frees
# -------------------------------------------------------------------------------------------------------------------------


def test_memory_is_freed_after_its_last_uses_on_all_streams(driver: FakeDriver) -> None:
    storage = Storage.allocate(driver, 0, 64, 5)
    storage.pass_through(6, write=False)
    RecordedEvent(driver, storage.line(6))
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


def test_an_allocation_on_a_stream_that_is_refused_is_given_back(driver: FakeDriver) -> None:
    with pytest.raises(
        SchedulingError, match=r"^the per-thread default stream \(handle 2\) cannot use tensors"
    ):
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


# --- order
# -------------------------------------------------------------------------------------------------------------------------


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


# --- out of memory
# -----------------------------------------------------------------------------------------------------------------


def test_out_of_memory_says_what_was_asked_and_what_there_is(driver: FakeDriver) -> None:
    kept = Storage.allocate(driver, 0, 100, 5)
    driver.fail["allocate"] = "CUDA_ERROR_OUT_OF_MEMORY"
    with pytest.raises(OutOfMemoryError) as caught:
        Storage.allocate(driver, 0, 1 << 20, 5)
    error, free = caught.value, 2**30 - kept.nbytes
    assert error.what == (
        "device 0 (Fake H200) has no memory of 1048576 bytes: the pool uses 100 of 100 that it has reserved, "
        f"and {free} of the device's {2**30} are free"
    )
    facts = (error.requested, error.used, error.reserved, error.free, error.total, error.code)
    assert facts == (1 << 20, 100, 100, free, 2**30, 2)
    assert error.fix
    assert isinstance(error, MemoryError)
