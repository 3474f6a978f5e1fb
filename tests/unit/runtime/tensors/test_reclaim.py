"""Where memory is short: freed memory is waited for, what pools keep is given back, and the request
is made once more.
"""

from __future__ import annotations

import gc
import threading

import pytest

from tests.waiting import PATIENCE, becomes, joined
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.device.frees import FREES
from tilec_runtime.device.streams import Stream
from tilec_runtime.errors import DriverError, OutOfMemoryError
from tilec_runtime.tensors.buffer import DeviceBuffer
from tilec_runtime.tensors.pool import MemPool
from tilec_runtime.tensors.storage import Storage, allocate_bytes

CPU = -1


class Scarce(FakeDriver):
    """A device whose memory is all kept by pools, until `needed` of them are trimmed."""

    def __init__(self, needed: int) -> None:
        super().__init__()
        self.needed = needed
        self.asked = 0
        self.trimmed: list[tuple[int, int]] = []

    def allocate(self, ordinal: int, size: int, stream: int | None, pool: int | None = None) -> int:
        self.asked += 1
        if len(self.trimmed) < self.needed:
            raise DriverError(
                "cuMemAllocFromPoolAsync failed", result="CUDA_ERROR_OUT_OF_MEMORY", code=2
            )
        return super().allocate(ordinal, size, stream, pool)

    def trim_pool(self, ordinal: int, pool: int, keep: int) -> None:
        super().trim_pool(ordinal, pool, keep)
        self.trimmed.append((pool, keep))


def test_what_pools_keep_is_given_back_before_memory_is_refused() -> None:
    driver = Scarce(needed=3)
    held, also, closed, elsewhere = (MemPool(device, driver=driver) for device in (0, 0, 0, 1))
    closed.close()
    storage = Storage.allocate(driver, 0, 64, 5)
    assert storage.address
    assert driver.asked == 2
    assert sorted(driver.trimmed) == sorted([(0, 0), (held.handle, 0), (also.handle, 0)])
    assert elsewhere.handle not in dict(driver.trimmed)


@pytest.mark.parametrize("stream", [None, 5])
def test_buffers_get_it_too(stream: int | None) -> None:
    driver = Scarce(needed=1)
    assert DeviceBuffer((16,), "f32", 0, stream, driver=driver).ptr
    assert driver.asked == 2


def test_nothing_is_given_back_for_more_than_the_device_has() -> None:
    driver = Scarce(needed=1)
    with pytest.raises(OutOfMemoryError):
        allocate_bytes(driver, 0, 2**30 + 1, 5)
    assert driver.trimmed == []


@pytest.mark.parametrize("several", [False, True])
def test_memory_that_a_busy_stream_frees_is_waited_for(cpu: CpuDriver, several: bool) -> None:
    pool = MemPool("cpu", max_size=1000, driver=cpu)
    go = threading.Event()

    def held() -> None:
        assert go.wait(PATIENCE)

    with Stream("cpu", driver=cpu) as busy, Stream("cpu", driver=cpu) as other:
        storage = Storage.allocate(cpu, CPU, 600, busy.handle, pool.handle)
        if several:
            storage.pass_through(other.handle, write=False)
            cpu.call(other.handle, "wait", held, [])
        cpu.call(busy.handle, "wait", held, [])
        storage._release()
        assert pool.stats.used == 600, "the stream has not come to the free"
        timer = threading.Timer(0.05, go.set)
        timer.start()
        assert allocate_bytes(cpu, CPU, 600, other.handle, pool.handle)
        assert go.is_set()
        joined(timer)


# --- what the collector finds
# ------------------------------------------------------------------------------------------------------


class Cycle:
    """Holds something until the collector runs."""

    def __init__(self, held: object) -> None:
        self.held = held
        self.itself = self


def collecting() -> threading.Thread:
    """The collector at work on another thread."""
    thread = threading.Thread(target=gc.collect, daemon=True)
    thread.start()
    return thread


def test_the_collector_waits_for_no_stream(cpu: CpuDriver) -> None:
    """It runs on any thread, which may hold what another one waits for: it must not wait for the
    lock of a stream itself.
    """
    pool, go = MemPool("cpu", driver=cpu), threading.Event()
    with Stream("cpu", driver=cpu) as busy:
        queue = cpu._queues[busy.handle]
        queue.put(lambda _: go.wait(PATIENCE))
        Cycle(Storage.allocate(cpu, CPU, 64, busy.handle, pool.handle))
        with queue._changed:
            joined(collecting())
        assert pool.stats.used == 64
        go.set()
        assert becomes(lambda: pool.stats.used == 0, collect=False)


def test_what_the_collector_found_is_given_back_before_more_is_taken(cpu: CpuDriver) -> None:
    pool = MemPool("cpu", max_size=64, driver=cpu)
    Cycle(Storage.allocate(cpu, CPU, 64, 0, pool.handle))
    gc.collect()
    assert Storage.allocate(cpu, CPU, 64, 0, pool.handle).address


@pytest.mark.parametrize("wants", ["statistics", "memory"])
def test_memory_that_another_thread_is_giving_back_is_waited_for(
    cpu: CpuDriver, wants: str
) -> None:
    pool, at_it, go = MemPool("cpu", max_size=64, driver=cpu), threading.Event(), threading.Event()
    storage = Storage.allocate(cpu, CPU, 64, 0, pool.handle)
    cpu.synchronize(CPU, 0)

    def give_back() -> None:
        at_it.set()
        assert go.wait(PATIENCE)
        storage._release()

    FREES.later(give_back)
    draining = threading.Thread(target=FREES.drain)
    draining.start()
    assert at_it.wait(PATIENCE)
    timer = threading.Timer(0.05, go.set)
    timer.start()
    if wants == "memory":
        assert Storage.allocate(cpu, CPU, 64, 0, pool.handle).address
    else:
        assert pool.stats.used == 0
    joined(timer, draining)
