"""Tensors on a GPU: order of streams and frees while streams are held up, other libraries both
ways, and pools.
"""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from tests.waiting import PATIENCE
from tilec_runtime import MemPool, Tensor
from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.device.driver import driver

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]
SIZE = 1 << 20
# Cycles of a busy loop on the device: some tens of milliseconds.
LONG = 50_000_000


@pytest.fixture
def streams(torch):
    return [torch.cuda.Stream() for _ in range(3)]


def made(stream, value: float, size: int = SIZE, pool: MemPool | None = None) -> Tensor:
    """A tensor whose elements are `value`, written in the order of a stream."""
    handle = None if pool is None else pool.handle
    t = Tensor.uninitialized(
        size, "f32", driver=driver(), ordinal=0, stream=stream.cuda_stream, pool=handle
    )
    bits = int(np.float32(value).view(np.uint32))
    assert bits % 0x01010101 == 0, "a value of four equal bytes"
    driver().fill(0, t.ptr, bits & 0xFF, t.nbytes, stream.cuda_stream)
    return t


ZERO, SAME = 0.0, float(np.uint32(0x3F3F3F3F).view(np.float32))


def contents(t: Tensor) -> np.ndarray:
    t.storage.sync(write=False)
    out = np.empty(t.size, np.float32)
    stream = driver().create_stream(0)
    driver().copy_out(0, out.ctypes.data, t.ptr, t.nbytes, stream)
    driver().destroy_stream(0, stream)
    return out


def hold(torch, stream) -> None:
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LONG)


def test_a_launch_waits_for_a_writer_on_another_stream(kernels, torch, streams):
    one, two, _ = streams
    x, y, z = made(one, SAME), made(one, ZERO), made(one, ZERO)
    w = made(two, ZERO)
    kernels.vector_add(z, x, y, stream=one)
    for _ in range(3):
        hold(torch, one)
        kernels.vector_add(z, x, y, stream=one)
        kernels.vector_add(w, z, y, stream=two)
    assert np.all(contents(w) == np.float32(SAME))


def test_a_writer_waits_for_a_reader_on_another_stream(kernels, torch, streams):
    one, two, _ = streams
    x, y, z, w = made(one, SAME), made(one, ZERO), made(one, ZERO), made(two, ZERO)
    kernels.vector_add(z, x, y, stream=one)
    torch.cuda.synchronize()
    hold(torch, two)
    kernels.vector_add(w, z, y, stream=two)  # reads the old contents, late
    kernels.vector_add(z, y, y, stream=one)  # writes zeros
    assert np.all(contents(w) == np.float32(SAME))
    assert np.all(contents(z) == 0)


def test_readers_do_not_wait_for_each_other(kernels, torch, streams):
    one, two, three = streams
    x = made(one, SAME)
    out = [made(stream, ZERO) for stream in (two, three)]
    zero = made(one, ZERO)
    kernels.vector_add(out[0], x, zero, stream=two)
    kernels.vector_add(out[1], x, zero, stream=three)
    torch.cuda.synchronize()
    hold(torch, two)
    kernels.vector_add(out[0], x, zero, stream=two)
    kernels.vector_add(out[1], x, zero, stream=three)
    three.synchronize()
    assert not two.query()
    torch.cuda.synchronize()


def test_memory_is_not_given_out_again_before_its_last_use(kernels, torch, streams):
    one, two, three = streams
    pool = MemPool(0, release_threshold=1 << 30)
    zero, z = made(one, ZERO), made(two, ZERO)
    kernels.vector_add(z, zero, zero, stream=two)
    for _ in range(5):
        x = made(one, SAME, pool=pool)
        hold(torch, two)
        kernels.vector_add(z, x, zero, stream=two)
        del x
        greedy = [
            made(three, ZERO, pool=pool) for _ in range(4)
        ]  # would get the memory if it were free
        three.synchronize()
        assert np.all(contents(z) == np.float32(SAME))
        del greedy


def test_threads_drop_the_last_references(kernels, torch, streams):
    pool = MemPool(0)
    zero = made(streams[0], ZERO, 4096)
    left = [made(streams[number % 3], SAME, 4096, pool=pool) for number in range(300)]

    def use_and_drop(stream) -> None:
        out = made(stream, ZERO, 4096)
        while True:
            try:
                x = left.pop()
            except IndexError:
                return
            kernels.vector_add(out, x, zero, stream=stream)
            del x

    threads = [threading.Thread(target=use_and_drop, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    torch.cuda.synchronize()
    assert pool.stats.used == 0


def test_owners_of_foreign_memory_live_until_the_device_is_done(kernels, torch, streams):
    zero, z = made(streams[0], ZERO), made(streams[0], ZERO)
    theirs = torch.full((SIZE,), 2.0, device="cuda")
    t = Tensor.from_foreign(theirs)
    hold(torch, streams[0])
    kernels.vector_add(z, t, zero, stream=streams[0])
    del t, theirs
    greedy = [torch.zeros(SIZE, device="cuda") for _ in range(4)]
    assert np.all(contents(z) == 2)
    assert COMPLETIONS.drain(PATIENCE)
    assert not greedy[0].any()
