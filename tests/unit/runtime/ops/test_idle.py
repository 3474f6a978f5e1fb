"""What a process has dropped goes once the device is done with it, also where nothing more is done
with tilec.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

import numpy as np
import pytest

from tests.unit.runtime.ops.device_samples import Held
from tests.waiting import PATIENCE, Gate, at_once, becomes, joined
from tilec_runtime import MemPool, Tensor
from tilec_runtime.device.completion import Completions
from tilec_runtime.device.frees import FREES
from tilec_runtime.device.marks import Mark, line_of
from tilec_runtime.tensors.storage import Storage


class Array(np.ndarray[tuple[int], np.dtype[np.float32]]):
    """An array that can be followed."""


def array() -> Array:
    return np.ones(4, np.float32).view(Array)


def goes(reference: Callable[[], object]) -> bool:
    """Whether an object goes by itself: nothing is asked of tilec meanwhile."""
    return becomes(lambda: reference() is None, collect=False)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_arguments_of_a_future_that_was_dropped_go(held: Held, *, elsewhere: bool) -> None:
    x = array()
    alive = weakref.ref(x)
    futures = [
        held.module.ops.add(
            Tensor.from_foreign(array(), driver=held.driver),
            Tensor.from_foreign(x, driver=held.driver),
            x,
        ).future()
    ]
    del x
    if elsewhere:
        thread = threading.Thread(target=futures.clear)
        thread.start()
        joined(thread)
    futures.clear()
    assert goes(alive)


# --- frees
# ---------------------------------------------------------------------------------------------------------------------------


def test_memory_that_was_dropped_in_a_capture_goes_after_it(held: Held) -> None:
    stream = held.device.new_stream()
    pool = held.driver.default_pool(-1)
    t = Tensor.uninitialized(64, "f32", driver=held.driver, ordinal=-1, stream=stream.handle)
    held.driver.begin_capture(-1, stream.handle)
    del t
    assert pool.stats.used == 256
    held.driver.destroy_graph(-1, held.driver.end_capture(-1, stream.handle))
    FREES.drain()
    assert becomes(lambda: pool.stats.used == 0, collect=False)


def test_two_threads_that_free_a_tensor_free_it_once(cpu_pool: MemPool) -> None:
    for _ in range(50):
        storage = Storage.allocate(cpu_pool._driver, -1, 64, 0, cpu_pool.handle)
        at_once(storage._release, storage._release)
        assert cpu_pool.stats.used == 0


def test_who_drains_waits_until_all_callbacks_have_returned(held: Held) -> None:
    """They may release memory, which would be counted otherwise."""
    called, gate = threading.Event(), Gate()
    gate.open.clear()
    completions = Completions()

    def callback(_: object) -> None:
        called.set()
        gate()

    with held.device.new_stream() as stream:
        completions.watch(
            Mark(held.driver, line_of(held.driver, -1, stream.handle)), stream.handle, callback
        )
        assert called.wait(PATIENCE)
        assert not completions.drain(0.01)
        gate.open.set()
        assert completions.drain(PATIENCE)


@pytest.fixture
def cpu_pool() -> MemPool:
    return MemPool("cpu")
