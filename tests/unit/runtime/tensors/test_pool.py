"""Pools: what they keep, what they count, and that their tensors outlive them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from tests.waiting import at_once
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Device, api, use_device, with_context
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.errors import OutOfMemoryError, SchedulingError, UsageError
from tilec_runtime.tensors.pool import MemPool, trim_all, use_pool
from tilec_runtime.tensors.tensor import Tensor


def of(pool: MemPool, driver: CpuDriver, size: int) -> Tensor:
    return Tensor.uninitialized(size, "u8", driver=driver, ordinal=-1, stream=0, pool=pool.handle)


def test_a_pool_keeps_counts_and_trims(cpu: CpuDriver) -> None:
    with MemPool("cpu", release_threshold=1000, driver=cpu) as pool:
        t = of(pool, cpu, 600)
        assert (
            pool.device,
            pool.stats.used,
            pool.stats.reserved,
            pool.stats.release_threshold,
        ) == (-1, 600, 600, 1000)
        address = t.ptr
        del t
        cpu.synchronize(-1, 0)
        assert (pool.stats.used, pool.stats.reserved, pool.stats.used_high) == (0, 600, 600)
        assert of(pool, cpu, 600).ptr == address, "kept memory is used again"
        cpu.synchronize(-1, 0)
        pool.trim()
        assert pool.stats.reserved == 0
        pool.set_release_threshold(0)
        of(pool, cpu, 10)
        cpu.synchronize(-1, 0)
        assert pool.stats.reserved == 0
    pool.close()
    with pytest.raises(SchedulingError, match=r"^the pool is closed"):
        pool.stats  # noqa: B018


def test_memory_whose_owners_go_in_two_threads_is_freed_once(cpu: CpuDriver) -> None:
    pool = MemPool("cpu", driver=cpu)
    for _ in range(50):
        first = [of(pool, cpu, 64).share()]
        second = [first[0].clone()]
        at_once(first.clear, second.clear)
        cpu.synchronize(-1, 0)
        assert pool.stats.used == 0


def test_a_bounded_pool_says_what_it_has_and_goes_on(cpu: CpuDriver) -> None:
    pool = MemPool("cpu", max_size=1000, driver=cpu)
    t = of(pool, cpu, 600)
    with pytest.raises(
        OutOfMemoryError,
        match="has no memory of 500 bytes: the pool uses 600 of 600 that it has reserved",
    ) as caught:
        of(pool, cpu, 500)
    assert (caught.value.requested, caught.value.used, caught.value.reserved) == (500, 600, 600)
    assert caught.value.device == -1
    assert caught.value.cause.startswith("the pool of use_pool takes no more")
    assert "max_size" in caught.value.fix
    np.asarray(t)[...] = 3
    assert np.asarray(t).sum() == 1800
    del t
    cpu.synchronize(-1, 0)
    assert of(pool, cpu, 1000).nbytes == 1000


def test_tensors_outlive_their_pool(cpu: CpuDriver) -> None:
    pool = MemPool("cpu", release_threshold=1000, driver=cpu)
    t = of(pool, cpu, 8)
    del pool
    gc.collect()
    np.asarray(t)[...] = 1
    del t
    cpu.synchronize(-1, 0)
    assert cpu._owners == {}


def test_ops_take_memory_from_the_pool_that_is_used() -> None:
    big = np.ones(1 << 16, np.float32)  # goes through staging
    with use_device("cpu"), MemPool("cpu", release_threshold=1 << 20) as pool:
        outside = api.zeros(100).sync()
        with use_pool(pool) as given:
            assert given is pool
            made = [
                api.zeros(100).sync(),
                api.from_host(np.ones(50, np.float32)).sync(),
                api.from_host(big).sync(),
            ]
            assert pool.stats.used == 400 + 200 + big.nbytes
            made += [made[1].dup().sync(), api.convert(made[0], "f64").sync()]
            assert pool.stats.used == 400 + 200 + big.nbytes + 200 + 800
            address = with_context(lambda ctx: ctx.malloc_async(56)).sync()
            assert pool.stats.used == 1656 + big.nbytes
            with_context(lambda ctx: ctx.free_async(address)).sync()
        before = pool.stats.used
        also = api.zeros(100).sync()
        assert pool.stats.used == before, "outside of the block it is the device's own again"
        assert made[2].to_host().sum() == big.size
        del made
        Device("cpu").sync()
        assert pool.stats.used == 0
        del outside, also


def test_pools_of_other_devices_are_passed_over(cpu: CpuDriver) -> None:
    device = Device("cpu", driver=cpu)
    with (
        use_device(device),
        MemPool("cpu") as other,
        MemPool(device, release_threshold=9, driver=cpu) as pool,
    ):
        with use_pool(pool), use_pool(other):
            made = api.zeros(5).sync()
            assert (pool.stats.used, other.stats.used) == (20, 0)
        del made


def test_only_open_pools_are_used(cpu: CpuDriver) -> None:
    with pytest.raises(UsageError, match=r"^use_pool takes a MemPool, got a int"), use_pool(3):  # type: ignore[arg-type]
        pass
    pool = MemPool("cpu", driver=cpu)
    with use_device(Device("cpu", driver=cpu)):
        with use_pool(pool):
            pool.close()
            with pytest.raises(SchedulingError, match=r"^the pool is closed"):
                api.zeros(5).sync()
        assert api.zeros(5).sync().size == 5


def test_the_pool_that_a_device_has_by_itself(cpu: CpuDriver) -> None:
    pool = MemPool.default("cpu", driver=cpu)
    with use_device(Device("cpu", driver=cpu)):
        made = api.zeros(25).sync()
    assert pool.stats.used == 100
    pool.close()
    pool.set_release_threshold(512)
    assert MemPool.default("cpu", driver=cpu).stats.release_threshold == 512
    del made


def test_a_pool_that_is_dropped_while_all_are_trimmed_goes_after_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = FakeDriver()
    pools, trim = [MemPool(0, driver=driver)], driver.trim_pool

    def trimmed(ordinal: int, pool: Any, keep: int) -> None:
        pools.clear()  # as another thread may, or the collector
        gc.collect()
        trim(ordinal, pool, keep)

    monkeypatch.setattr(driver, "trim_pool", trimmed)
    trim_all(driver, 0)
    gc.collect()
    assert [call for call in driver.calls if call in ("trim_pool", "destroy_pool")] == [
        "trim_pool",
        "trim_pool",
        "destroy_pool",
    ]


def test_a_pool_of_others_is_used_and_left_as_it_is() -> None:
    class Resource:
        """A memory resource of cuda.core, as far as it matters."""

    driver = FakeDriver()
    handle, resource = driver.create_pool(0, 100), Resource()
    gone = weakref.ref(resource)
    with MemPool.borrow_raw(handle, 0, owner=resource, driver=driver) as pool:
        assert (pool.device, pool.handle, pool.stats.release_threshold) == (0, handle, 100)
        with use_device(Device(0, driver=driver)), use_pool(pool):
            t = api.empty(64, "u8").sync()
        assert (pool.stats.used, MemPool.default(0, driver=driver).stats.used) == (64, 0)
    del pool, resource
    gc.collect()
    assert gone() is not None, "its memory is in use"
    del t
    assert driver.pool_stats(0, handle).used == 0
    assert "destroy_pool" not in driver.calls
