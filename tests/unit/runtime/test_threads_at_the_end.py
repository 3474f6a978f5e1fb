"""Once a process ends no thread of tilec's is left that the interpreter would have to end, and
whoever goes on does the work itself.
"""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any, cast

import pytest

from tests.processes import run_python
from tests.waiting import PATIENCE, Gate, joined
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.device.completion import Completions
from tilec_runtime.device.lines import event_behind, line_of
from tilec_runtime.device.seam import CopyKind

CPU = -1


# What is registered first is called last.
LAST = """
import atexit, threading
def last():
    print([thread.name for thread in threading.enumerate() if thread.name.startswith("tilec")])
    then()
    print([thread.name for thread in threading.enumerate() if thread.name.startswith("tilec")])
atexit.register(last)
import numpy as np
from tests.cpu_samples import device, ones
from tilec_runtime import Device, Tensor, set_default_device
module, driver = device()
set_default_device(Device("cpu", driver=driver))
def op():
    x = Tensor.from_foreign(ones(4), driver=driver).share()
    return module.ops.add(Tensor.from_foreign(ones(4), driver=driver), x, x)
op().future().result(30)
told = []
"""


@pytest.mark.parametrize(
    "then",
    [
        "print(np.asarray(op().sync()[0]).tolist())",
        "async def main(): return (await op())[0]\n    import asyncio; print(np.asarray(asyncio.run(main())).tolist())",
        (
            "z = ones(4); s = Device('cpu', driver=driver).new_stream(); "
            "module.add(z, ones(4), ones(4), stream=s); s.close(); print(z.tolist())"
        ),
    ],
)
def test_no_thread_is_left_and_none_comes(then: str) -> None:
    returned, printed, said = run_python(f"{LAST}def then():\n    {then}\n", "-W", "error")
    assert (returned, printed.splitlines(), said) == (0, ["[]", "[2.0, 2.0, 2.0, 2.0]", "[]"], "")


def test_a_daemon_thread_that_goes_on_does_its_work_itself() -> None:
    code = """
def then():
    go.set()
    assert done.acquire(timeout=30)
go, done = threading.Event(), threading.Semaphore(0)
def goes_on():
    go.wait()
    while True:
        op().future().result()
        print(*{thread.name for thread in threading.enumerate()} - names)
        done.release()
        threading.Event().wait()  # for ever
thread = threading.Thread(target=goes_on, daemon=True)
thread.start()
names = {"MainThread", thread.name}
"""
    assert run_python(LAST + code, "-W", "error") == (0, "[]\n\n[]\n", "")


@pytest.mark.parametrize("waits", ["stream.sync()", "event.sync()"])
def test_nobody_waits_for_ever_for_work_that_does_not_stop(waits: str) -> None:
    """Not in a `__del__` either, when no other thread runs any more."""
    code = f"""
import atexit, builtins, threading
from tests.cpu_samples import device
from tilec_runtime import Device, Event
from tilec_runtime.cpu.queue import end_all
driver = device()[1]
here = Device("cpu", driver=driver)
stream, event, began = here.new_stream(), Event(here, driver=driver), threading.Event()
atexit.unregister(end_all)
atexit.register(end_all, 0)
def never(*_):
    began.set()
    threading.Event().wait()
driver._put(stream.handle, "never", never)
event.record(stream)
assert began.wait(60)
class Waits:
    def __del__(self, stream=stream, event=event):
        try:
            {waits}
        except Exception as error:
            print(type(error).__name__, error)
builtins.last = Waits()
"""
    returned, printed, _ = run_python(code, "-W", "error")
    what = "the process ends while stream 0x1000 of the cpu device has work that does not stop: it will not be done"
    cause = "an object's `__del__` waits for it when the interpreter is taken apart, and no other thread runs any more"
    assert returned == 0
    assert printed.startswith(
        f"DriverError {what}\n  cause: {cause}\n  fix: wait before the process ends"
    ), printed


# --- completion threads
# -------------------------------------------------------------------------------------------------------------


def test_the_end_waits_for_the_device_and_the_threads() -> None:
    driver, completions, gate = CpuDriver(), Completions(), Gate()
    called: list[threading.Thread] = []

    def callback(_: object) -> None:
        called.append(threading.current_thread())

    gate.open.clear()
    driver._queues[0].put(lambda _: gate())
    completions.watch(event_behind(driver, line_of(driver, CPU, 0), 1), 0, callback)
    timer = threading.Timer(0.05, gate.open.set)
    timer.start()
    completions.close(PATIENCE)
    assert len(called) == 1
    assert not called[0].is_alive()
    completions.watch(event_behind(driver, line_of(driver, CPU, 0), 1), 0, callback)
    assert called[1] is threading.current_thread(), (
        "the interpreter must not end beside a thread that just starts"
    )
    joined(timer)


def test_a_copy_keeps_pinned_memory_at_both_ends() -> None:
    """Staging lends it, and may be gone when the interpreter is, while a thread still copies."""
    driver, gate = CpuDriver(), Gate()
    device_memory = driver.allocate(CPU, 64, None)
    for kind in (CopyKind.TO_DEVICE, CopyKind.TO_HOST):
        pinned = driver.allocate_pinned(CPU, 64)
        found = driver._allocations.holding(pinned)
        assert found is not None
        alive = weakref.ref(cast("Any", found[1].base))
        del found
        gate.open.clear()
        driver._queues[0].put(lambda _: gate())
        ends = (device_memory, pinned) if kind is CopyKind.TO_DEVICE else (pinned, device_memory)
        driver.copy_async(CPU, *ends, 64, 0, kind)
        driver.free_pinned(CPU, pinned)
        gc.collect()
        assert alive() is not None
        gate.open.set()
        driver.synchronize(CPU, 0)
        assert alive() is None
