"""What a process has dropped goes once the device is done with it, also where nothing more is done with tilec."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable

import numpy as np
import pytest

from tests.unit.runtime.ops.device_samples import Held
from tilec.runtime import Tensor, value


class Array(np.ndarray[tuple[int], np.dtype[np.float32]]):
    """An array that can be followed."""


def array() -> Array:
    return np.ones(4, np.float32).view(Array)


def goes(reference: Callable[[], object]) -> bool:
    """Whether an object goes by itself: nothing is asked of tilec meanwhile."""
    end = time.monotonic() + 5
    while reference() is not None and time.monotonic() < end:
        time.sleep(0.005)
    return reference() is None


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
        thread.join()
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
    thread.join()
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
