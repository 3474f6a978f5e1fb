"""What a process has dropped goes once the device is done with it, also where nothing more is done with tilec."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from tests.unit.runtime.ops.device_samples import Held
from tests.waiting import PATIENCE, Gate, becomes, joined
from tilec.runtime import DeviceBuffer, MemPool, Tensor, value
from tilec.runtime.marks import Mark
from tilec.runtime.ops.watcher import Watcher
from tilec.runtime.tensors.drops import Drops


class Array(np.ndarray[tuple[int], np.dtype[np.float32]]):
    """An array that can be followed."""


def array() -> Array:
    return np.ones(4, np.float32).view(Array)


def goes(reference: Callable[[], object]) -> bool:
    """Whether an object goes by itself: nothing is asked of tilec meanwhile."""
    return becomes(lambda: reference() is None, collect=False)


def test_what_a_graph_owns_goes_with_it(held: Held) -> None:
    x = array()
    alive = weakref.ref(x)
    stream = held.device.new_stream()
    graph = held.module.lazy.add(np.zeros(4, np.float32), x, x).graph_on(stream)
    del x
    graph.replay()
    stream.sync()
    assert alive() is not None
    del graph
    gc.collect()
    assert goes(alive)


def test_an_array_that_a_tensor_is_of_goes_after_the_launch(held: Held) -> None:
    x = array()
    alive = weakref.ref(x)
    t = Tensor.from_foreign(x, driver=held.driver)
    del x
    with held.held():
        held.module.add(0, Tensor.from_foreign(array(), driver=held.driver), t, t)
        del t
        gc.collect()
        assert alive() is not None
    assert goes(alive)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_arguments_of_a_future_that_was_dropped_go(held: Held, *, elsewhere: bool) -> None:
    x = array()
    alive = weakref.ref(x)
    futures = [
        held.module.lazy.add(Tensor.from_foreign(array(), driver=held.driver), Tensor.from_foreign(x, driver=held.driver), x).future()
    ]
    del x
    if elsewhere:
        thread = threading.Thread(target=futures.clear)
        thread.start()
        joined(thread)
    futures.clear()
    assert goes(alive)


def test_a_tensor_that_another_thread_drops_goes(held: Held) -> None:
    x = array()
    alive = weakref.ref(x)
    tensors = [Tensor.from_foreign(x, driver=held.driver)]
    del x
    held.module.add(0, Tensor.from_foreign(array(), driver=held.driver), tensors[0], tensors[0])
    thread = threading.Thread(target=tensors.clear)
    thread.start()
    joined(thread)
    assert goes(alive)


def test_the_collector_may_drop_in_the_middle_of_starting_a_thread(held: Held) -> None:
    """It takes no lock that the thread it runs on may hold."""
    x = array()
    alive = weakref.ref(x)
    t = Tensor.from_foreign(x, driver=held.driver)
    del x
    held.module.add(0, Tensor.from_foreign(array(), driver=held.driver), t, t)
    with threading._active_limbo_lock:  # type: ignore[attr-defined]
        del t
    assert goes(alive)


def test_a_process_ends_while_something_is_to_go(held: Held) -> None:
    code = """
import threading
import numpy as np
from tilec.runtime import Device, Tensor
from tilec.runtime.marks import Mark
from tilec.runtime.tensors.drops import DROPS

class Never:
    reached = False
    ordinal = -1
    driver = Device("cpu").driver

DROPS.keep_idle((Never(),), object())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_value_of_an_op_goes(held: Held) -> None:
    x = array()
    alive = weakref.ref(x)
    future = value(x).future()
    del x, future
    assert goes(alive)


# --- while several threads are at it ------------------------------------------------------------------------------------------------


class Asked:
    """Stands for a mark. Who asks first is held at a gate, and told that the device is not done; later it is."""

    ordinal = -1

    def __init__(self, held: Held) -> None:
        self.driver = held.driver
        self.gate, self.came = Gate(), threading.Event()
        self.gate.open.clear()

    @property
    def reached(self) -> bool:
        first = not self.came.is_set()
        self.came.set()
        self.gate()
        return not first


def in_hand(drops: Drops, held: Held) -> tuple[Asked, threading.Thread, weakref.ref[Array]]:
    """An array that is kept, and which another thread has taken out to look whether it may go."""
    x, mark = array(), Asked(held)
    drops.keep((cast("Any", mark),), x)
    thread = threading.Thread(target=drops.drain)
    thread.start()
    assert mark.came.wait(PATIENCE)
    return mark, thread, weakref.ref(x)


def test_what_another_thread_is_looking_at_is_not_gone(held: Held) -> None:
    drops = Drops()
    mark, thread, alive = in_hand(drops, held)
    assert drops.drain() > 0
    mark.gate.open.set()
    thread.join(PATIENCE)
    assert drops.drain() == 0
    assert alive() is None


def test_what_comes_while_another_thread_is_looking_goes_too(held: Held) -> None:
    drops = Drops()
    mark, thread, _ = in_hand(drops, held)
    x = array()
    alive = weakref.ref(x)
    drops.keep_idle((cast("Any", mark),), x)
    del x
    mark.gate.open.set()
    thread.join(PATIENCE)
    assert goes(alive)


def test_memory_that_was_dropped_in_a_capture_goes_after_it(held: Held) -> None:
    """Nobody does anything more with tensors."""
    stream = held.device.new_stream()
    pool = held.driver.default_pool(-1)
    t = Tensor.uninitialized(64, "f32", driver=held.driver, ordinal=-1, stream=stream.handle)
    held.driver.begin_capture(-1, stream.handle)
    del t
    gc.collect()
    assert pool.stats.used == 256
    held.driver.destroy_graph(-1, held.driver.end_capture(-1, stream.handle))
    assert becomes(lambda: pool.stats.used == 0, collect=False)


def test_who_waits_for_the_watcher_waits_until_all_are_told(held: Held) -> None:
    """What they are told may let go of things, which would be counted otherwise."""
    telling, gate = threading.Event(), Gate()
    gate.open.clear()
    watcher = Watcher()

    def told(_: object) -> None:
        telling.set()
        gate()

    with held.device.new_stream() as stream:
        watcher.watch(Mark(held.driver, -1, stream.handle), stream.handle, told)
        assert telling.wait(PATIENCE)
        assert not watcher.drain(0.01)
        gate.open.set()
        assert watcher.drain(PATIENCE)


def test_tensors_are_in_no_table_that_the_interpreter_walks_through_at_its_end(held: Held) -> None:
    """Threads that go on make and drop some meanwhile, and it would fail."""
    before = len(weakref.finalize._registry)  # type: ignore[attr-defined]
    graph = held.module.lazy.add(np.zeros(4, np.float32), array(), array()).graph_on(held.device.new_stream())
    made = [
        graph,
        Tensor.from_foreign(array(), driver=held.driver),
        Tensor.uninitialized(4, "f32", driver=held.driver, ordinal=-1, stream=0),
        DeviceBuffer((4,), "f32", "cpu", driver=held.driver),
        MemPool("cpu", driver=held.driver),
    ]
    assert len(weakref.finalize._registry) == before, made  # type: ignore[attr-defined]
