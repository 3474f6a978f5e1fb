"""The end of processes that use the cpu device, by themselves or by Ctrl-C, their children, and
failures that nobody waited for.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

from tests.cpu_samples import device, failed, fails, later, ones
from tests.waiting import Gate, becomes
from tilec_runtime import Stream
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.errors import FaultError

ROOT = Path(__file__).resolve().parents[4]

# --- the process
# -------------------------------------------------------------------------------------------------------------------


def run_python(code: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *flags, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )


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
    done = run_python(HEAD)  # by itself the kernel never ends
    assert done.returncode == 0
    assert (
        "RuntimeWarning: the process ended while stream 0x0 of the cpu device had work (launches and copies: 2): given up"
        in done.stderr
    )
    assert set(done.stdout.split()) <= {"started", "stopped"}


def test_a_buffer_that_is_collected_last_of_all_is_quiet() -> None:
    code = """
import builtins
from tilec_runtime import DeviceBuffer, Stream
builtins.stream = Stream("cpu")
builtins.buffer = DeviceBuffer((4,), "f32", "cpu", builtins.stream)
"""
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")


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
    done = run_python(HEAD + code)
    assert done.returncode != 0
    assert "KeyboardInterrupt" in done.stderr
    assert done.stdout.split() == ["started", "stopped"]


def test_a_forked_child_has_streams_of_its_own() -> None:
    code = """
import os, warnings, numpy as np
from tests.cpu_samples import device, later, ones
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads
module, driver = device()
z = ones(4)
later(module, 0, z, ones(4), ones(4))
driver.synchronize(-1, 0)
child = os.fork()
later(module, 0, z, ones(4), ones(4), alpha=2.0)
driver.synchronize(-1, 0)
assert z.tolist() == [3, 3, 3, 3]
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")


def test_launching_on_cuda_imports_no_interpreter() -> None:
    code = """
import sys
from tests.runtime_samples import ADD, Array, loaded
module, driver = loaded(ADD)
module.add(Array(64), Array(64, ptr=0x20000), Array(64, ptr=0x30000))
assert driver.launches
print(sorted(name for name in sys.modules if name.startswith("tilec_runtime.cpu.tileir")))
"""
    done = run_python(code)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")


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
    done = run_python(code, *flags)
    words = "RuntimeWarning: work on stream 0x0 of the cpu device failed, and nobody waited for it: add-any: it went wrong"
    assert words in done.stderr
    assert done.stderr.count("RuntimeWarning:") == 1
    told = run_python(code + "try:\n    driver.synchronize(-1, 0)\nexcept Exception:\n    pass\n")
    assert (told.returncode, told.stderr) == (0, "")
