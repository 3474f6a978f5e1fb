"""The end of processes that use the cpu device, by themselves or by Ctrl-C, their children, and
failures that nobody waited for.
"""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

import pytest

from tests.cpu_samples import device, failed, fails, later, ones
from tests.processes import run_python
from tests.waiting import Gate, becomes
from tilec_runtime import Stream
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.errors import FaultError

# --- the process
# -------------------------------------------------------------------------------------------------------------------


HEAD = """
import time, os, signal, threading, numpy as np
from tests.cpu_samples import device, later, ones
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell ignores it
started = threading.Event()
def slow(run):
    print("started", flush=True)
    started.set()
    while not run.options.cancelled():
        time.sleep(0.01)
    print("stopped", flush=True)
module, driver = device(slow)
for _ in range(2):
    later(module, 0, ones(4), ones(4), ones(4))
"""


def test_a_process_that_ends_does_not_wait_for_a_busy_stream() -> None:
    status, printed, said = run_python(HEAD)  # by itself the kernel never ends
    assert status == 0
    assert (
        "RuntimeWarning: the process ended while stream 0x0 of the cpu device had work (launches and copies: 2): given up"
        in said
    )
    assert set(printed.split()) <= {"started", "stopped"}


def test_a_buffer_that_is_collected_last_of_all_is_quiet() -> None:
    code = """
import builtins
from tilec_runtime import DeviceBuffer, Stream
builtins.stream = Stream("cpu")
builtins.buffer = DeviceBuffer((4,), "f32", "cpu", builtins.stream)
"""
    assert run_python(code) == (0, "", "")


def test_ctrl_c_ends_a_wait() -> None:
    """Pressed by another thread, once the kernel runs and somebody waits for it. The second launch
    never starts.
    """
    code = """
queue, waits = driver._queues[0], threading.Event()
def wait_for(*arguments):
    waits.set()
    return type(queue).wait_for(queue, *arguments)
def press():
    started.wait()
    waits.wait()
    time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)
queue.wait_for = wait_for
threading.Thread(target=press, daemon=True).start()
driver.synchronize(-1, 0)
"""
    status, printed, said = run_python(HEAD + code)
    assert status != 0
    assert "KeyboardInterrupt" in said
    assert printed.split() == ["started", "stopped"]


# --- failures that nobody waits for
# ------------------------------------------------------------------------------------------------


def test_closing_a_stream_tells_what_a_launch_came_to() -> None:
    module, driver = device(fails)
    stream = Stream("cpu", driver=driver)
    failed(module, driver, stream)
    with pytest.raises(FaultError, match=r"^add-any: it went wrong"):
        stream.close()
    stream.close()
    with pytest.warns(
        RuntimeWarning, match="^work on a stream failed, and nobody waited for it: add"
    ):
        leave_by_an_error(module, driver)


def leave_by_an_error(module: Any, driver: CpuDriver) -> None:
    with contextlib.suppress(ZeroDivisionError), Stream("cpu", driver=driver) as stream:
        failed(module, driver, stream)
        raise ZeroDivisionError


def test_a_stream_that_goes_with_a_failure_warns() -> None:
    module, driver = device(fails)
    stream = Stream("cpu", driver=driver)
    gate = Gate()
    gate.open.clear()
    driver._queues[stream.handle].put(lambda _: gate())
    later(module, stream, ones(4), ones(4), ones(4), alpha=-1.0)
    queue = weakref.ref(driver._queues[stream.handle])
    stream.close()
    with pytest.warns(
        RuntimeWarning,
        match="^work on stream 0x1000 of the cpu device failed, and nobody waited for it: add-any: it went",
    ):
        let_go(gate, queue)


def let_go(gate: Gate, queue: weakref.ref[Any]) -> None:
    """Open a gate, and wait until the queue behind it is collected."""
    gate.open.set()
    assert becomes(lambda: queue() is None)


@pytest.mark.parametrize("flags", [(), ("-W", "error")])
def test_a_process_that_ends_tells_of_failures_that_nobody_waited_for(
    flags: tuple[str, ...],
) -> None:
    code = """
from tests.cpu_samples import device, fails, later, ones
module, driver = device(fails)
later(module, 0, ones(4), ones(4), ones(4), alpha=-1.0)
queue = driver._queues[0]
assert queue.wait_for(queue.position, 10)
"""
    said = run_python(code, *flags)[2]
    words = "RuntimeWarning: work on stream 0x0 of the cpu device failed, and nobody waited for it: add-any: it went wrong"
    assert words in said
    assert said.count("RuntimeWarning:") == 1
    told = run_python(code + "try:\n    driver.synchronize(-1, 0)\nexcept Exception:\n    pass\n")
    assert told == (0, "", "")
