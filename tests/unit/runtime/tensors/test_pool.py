"""Pools: what they keep, what they count, and that their tensors outlive them."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from tilec.errors import OutOfMemoryError, SchedulingError, UsageError
from tilec.runtime.cpu_driver import CpuDriver
from tilec.runtime.tensors.pool import MemPool
from tilec.runtime.tensors.tensor import Tensor
from tilec.testing.fake_driver import FakeDriver


def of(pool: MemPool, driver: CpuDriver, size: int) -> Tensor:
    return Tensor.uninitialized(size, "u8", driver=driver, ordinal=-1, stream=0, pool=pool.handle)


def test_a_pool_keeps_counts_and_trims(cpu: CpuDriver) -> None:
    with MemPool("cpu", release_threshold=1000, driver=cpu) as pool:
        t = of(pool, cpu, 600)
        assert (pool.device, pool.stats.used, pool.stats.reserved, pool.stats.release_threshold) == (-1, 600, 600, 1000)
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


def test_a_bounded_pool_says_what_it_has_and_goes_on(cpu: CpuDriver) -> None:
    pool = MemPool("cpu", max_size=1000, driver=cpu)
    t = of(pool, cpu, 600)
    with pytest.raises(OutOfMemoryError, match="has no memory of 500 bytes: the pool uses 600 of 600 that it has reserved") as caught:
        of(pool, cpu, 500)
    assert (caught.value.requested, caught.value.used, caught.value.reserved) == (500, 600, 600)
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


def test_a_pool_goes_with_its_object() -> None:
    driver = FakeDriver()
    pool = MemPool(0, release_threshold=7, driver=driver)
    assert pool.stats.release_threshold == 7
    pool.set_release_threshold(9)
    pool.trim(5)
    del pool
    assert driver.calls == ["create_pool", "set_release_threshold", "trim_pool", "destroy_pool"]


def test_sizes_are_not_negative(cpu: CpuDriver) -> None:
    pool = MemPool("cpu", driver=cpu)
    for refused in (
        lambda: MemPool("cpu", release_threshold=-1, driver=cpu),
        lambda: MemPool("cpu", max_size=-1, driver=cpu),
        lambda: pool.set_release_threshold(-1),
        lambda: pool.trim(-1),
    ):
        with pytest.raises(UsageError, match="is -1, and sizes are not negative"):
            refused()
