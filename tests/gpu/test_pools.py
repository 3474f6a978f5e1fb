"""Memory on a GPU: tilec's own pool keeps what is freed, gives it back when asked, and before
memory is refused.
"""

from __future__ import annotations

import gc
from typing import Any

import pytest

from tilec_runtime import Device, MemPool, Tensor, api, use_device, use_pool
from tilec_runtime.device.driver import driver
from tilec_runtime.device.seam import KEEP_ALL
from tilec_runtime.errors import OutOfMemoryError

pytestmark = pytest.mark.gpu


@pytest.fixture
def device(torch: Any) -> Device:
    torch.cuda.empty_cache()
    found = Device(0)
    found.sync()
    gc.collect()
    MemPool.default(0).trim()
    return found


def free(device: Device) -> int:
    device.sync()
    return driver().memory_info(0)[0]


def test_the_pool_of_the_process_is_left_to_others(device: Device) -> None:
    from cuda.bindings import driver as cu

    number = cu.cuDeviceGet(0)[1]
    shared = cu.cuDeviceGetDefaultMemPool(number)[1]
    assert int(shared) != int(driver().default_pool(0))
    name = cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT
    before = int(cu.cuMemPoolGetAttribute(shared, name)[1])
    with use_device(device):
        t = api.zeros(1 << 20).sync()
        assert int(cu.cuMemPoolGetAttribute(shared, name)[1]) == before
        del t


def test_what_all_pools_keep_is_given_back_before_memory_is_refused(device: Device) -> None:
    part = free(device) // 10 * 4 // 4
    with use_device(device), MemPool(0, release_threshold=KEEP_ALL) as other:
        with use_pool(other):
            t = api.zeros(part).sync()
            del t
        t = api.zeros(part).sync()
        del t
        device.sync()
        assert other.stats.reserved >= 4 * part
        assert MemPool.default(0).stats.reserved >= 4 * part
        t = api.zeros(2 * part).sync()
        assert other.stats.reserved == 0
        assert t.nbytes == 8 * part
        del t


def test_frees_behind_work_are_waited_for_before_memory_is_refused(device: Device) -> None:
    count = free(device) // 10 * 7 // 4
    one, two = device.new_stream(), device.new_stream()
    with use_device(device):
        t = api.randn(count, seed=1).enqueue_on(one)
        del t  # freed behind the work, which takes a while
        u = api.zeros(count).sync_on(two)
        assert u.nbytes == 4 * count
        with pytest.raises(OutOfMemoryError) as caught:
            api.zeros(count).sync_on(two)
        assert caught.value.requested == 4 * count
        assert caught.value.used >= 4 * count
        assert 0 < caught.value.free < 4 * count < caught.value.total
        del u, caught
        assert api.ones(8).sync_on(two).to_host().sum() == 8


def test_captures_go_on_where_memory_is_short(device: Device) -> None:
    captured, other, total = device.new_stream(), device.new_stream(), driver().memory_info(0)[1]
    with use_device(device):
        t = api.ones(8).sync_on(captured)
    driver().begin_capture(0, captured.handle)
    driver().fill(0, t.ptr, 0, t.nbytes, captured.handle)
    with pytest.raises(OutOfMemoryError), use_device(device):
        api.zeros(total // 4).sync_on(other)  # of so much there is something used already
    graph = driver().end_capture(0, captured.handle)
    executable = driver().instantiate_graph(0, graph)
    driver().launch_graph(0, executable, captured.handle)
    captured.sync()
    assert t.to_host().sum() == 0
    driver().destroy_executable(0, executable)
    driver().destroy_graph(0, graph)


def test_a_memory_resource_of_cuda_core(device: Device) -> None:
    """Its pool serves tilec's ops, and its buffers are tensors."""
    core = pytest.importorskip("cuda.core")
    core.Device(0).set_current()
    resource = core.DeviceMemoryResource(core.Device(0))
    pool = MemPool.borrow_raw(resource.handle, resource.device_id, owner=resource)
    before, ours = pool.stats.used, MemPool.default(device).stats.used
    with use_device(device), use_pool(pool):
        t = api.full(1 << 20, 3).sync()
        assert pool.stats.used - before >= 4 << 20
        assert MemPool.default(device).stats.used == ours
        assert set(t.to_host().tolist()) == {3.0}
    pool.close()
    del t
    device.sync()
    assert MemPool.borrow_raw(int(resource.handle), 0).stats.used == before
    stream = core.Device(0).create_stream()  # which the buffer keeps: it is freed on it
    buffer = resource.allocate(4096, stream=stream)
    taken = Tensor.from_foreign(buffer)
    assert (taken.ptr, taken.nbytes, taken.device) == (int(buffer.handle), 4096, 0)
    back = api.fill(taken, 7).sync_on(stream)
    assert set(back.to_host().view("u1").tolist()) == {7}
