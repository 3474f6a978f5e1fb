"""Uses that nobody plans: copies, deep chains, loops that end early, processes that end or fork in the
middle.
"""

from __future__ import annotations

import asyncio
import copy
import pickle
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.cpu_samples import ones
from tests.processes import run_python
from tests.unit.runtime.ops.device_samples import Held
from tilec_runtime import (
    CudaGraph,
    DeviceBuffer,
    DeviceOp,
    Event,
    KernelFunction,
    KernelModule,
    MemPool,
    SingleStream,
    Stream,
    as_op,
    zip_ops,
)
from tilec_runtime.errors import TilecError


def launch(held: Held) -> DeviceOp[Any]:
    return held.module.ops.add(held.tensor(), held.tensor(), held.tensor())


@pytest.mark.parametrize("double", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_is_one_is_not_copied(held: Held, double: Callable[[Any], Any]) -> None:
    """A copy would go on with what the first gave back."""
    stream = Stream(held.device)
    for thing in (
        as_op(1),
        launch(held),
        as_op(1).shared(),
        as_op(1).future(),
        as_op(1).graph_on(stream),
        CudaGraph.scope(stream),
        SingleStream(held.device),
        held.module,
        held.module.kernels["add"],
        KernelModule.borrow_raw(1, "cpu"),
        KernelFunction.borrow_raw(1, "cpu"),
        held.tensor(),
        DeviceBuffer((3,), "f32", "cpu"),
        stream,
        Event(held.device, driver=held.driver),
        MemPool(held.device, driver=held.driver),
    ):
        what = f"a {type(thing).__name__} can be neither pickled nor copied: "
        with pytest.raises(TypeError, match=f"^{what}"):
            double(thing)


DEEP = 3 * sys.getrecursionlimit()


def test_recursion_through_then_and_steps_behind_it(held: Held) -> None:
    """Each level adds one on the way back."""

    def count(number: int) -> DeviceOp[int]:
        return (
            as_op(number)
            .then(lambda left: count(left - 1) if left else as_op(0))
            .map(lambda found: found + 1)
        )

    assert count(DEEP).sync() == DEEP + 1
    assert count(DEEP).future().result() == DEEP + 1


@pytest.mark.parametrize("levels", [2, DEEP])
def test_an_error_far_down_names_its_step(held: Held, levels: int) -> None:
    def fail(number: int) -> DeviceOp[Any]:
        def go(left: int) -> DeviceOp[Any]:
            if not left:
                raise TilecError("the work")
            return fail(left - 1)

        return as_op(number).then(go)

    with pytest.raises(
        TilecError, match=r"^the work\n  op: then, created at .*test_odd_uses.py:\d+$"
    ):
        fail(levels).sync()


def test_a_chain_may_be_long(held: Held) -> None:
    op: DeviceOp[int] = as_op(0)
    for _ in range(10_000):
        op = op.then(lambda x: as_op(x + 1))
    assert op.sync() == 10_000


def test_ops_that_are_too_deep_say_so_and_leave_all_as_it_was(held: Held) -> None:
    t = held.tensor()
    op: DeviceOp[Any] = held.module.ops.add(t, ones(4), ones(4))
    for _ in range(5_000):
        op = zip_ops(op)
    op = op.shared().map(lambda x: x)
    assert len(op.name) < 200
    with pytest.raises(RecursionError):
        op.sync()
    del op
    assert as_op(1).sync() == 1
    assert t.borrow().shape == (4,)  # moved back


def test_an_await_that_is_given_up_half_way(held: Held) -> None:
    async def main() -> str:
        steps = launch(held).__await__()
        next(steps)
        steps.close()
        return "closed"

    with held.held():
        assert asyncio.run(main()) == "closed"
    assert launch(held).sync()[0].shape == (4,)


def test_the_end_of_a_process_with_everything_in_the_air() -> None:
    status, printed, said = run_python(END, "-W", "error")
    assert (status, printed) == (0, "")
    # Work that goes on until the very end is given up, which the cpu device says; nothing else is
    # said.
    told = re.compile(
        r"(RuntimeWarning: the process ended while stream 0x\w+ of the cpu device had work .*: given up\n  fix: .*\n)*"
    )
    assert told.fullmatch(said), said


# A thread that has the locks of the process and of the device.
LOCKED = """
import os, signal, threading, warnings
import numpy as np
from tests.cpu_samples import device, ones
from tilec_runtime import Device, Tensor, set_default_device
from tilec_runtime.device import lines
from tilec_runtime.tensors import pool, staging

warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # since Python 3.12
module, driver = device()
set_default_device(Device("cpu", driver=driver))
x = Tensor.from_foreign(ones(64), driver=driver).share()
def launch():
    return module.ops.add(Tensor.from_foreign(ones(64), driver=driver), x, x).future().result(20)[0]
launch()

staged = staging.staging_of(driver, -1)
held, end = threading.Event(), threading.Event()
def hold():
    locks = (lines._LOCK, pool._LOCK, staging._LOCK, staged._lock, driver._lock, driver._pool._lock)
    with locks[0], locks[1], locks[2], locks[3], locks[4], locks[5]:
        held.set()
        end.wait()
threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(30)
    os.write(1, f"{np.asarray(launch())[0]}\\n".encode())
    os._exit(0)
status = os.waitpid(child, 0)[1]
end.set()
assert status == 0
"""
# Live tensors, views, shares and pools, futures nobody asked, callbacks, a thread that goes on
# launching, and a loop in another one. What is registered first is called last: the program's own
# threads go on until tilec has ended, and stop before the interpreter is taken apart: what happens
# to daemon threads then is a matter of the Python release, and not of tilec.
END = """
import asyncio, atexit, threading, time
over = threading.Event()
def stop():
    over.set()
    for thread in threads:
        thread.join(10)
        if thread.is_alive():
            print(thread.name, "hangs")
atexit.register(stop)
import numpy as np
from tests.cpu_samples import device, ones
from tilec_runtime import Device, MemPool, Stream, Tensor, as_op, set_default_device, use_device, zip_ops

module, driver = device()
driver._pace = lambda: time.sleep(0.001)
here = Device("cpu", driver=driver)
set_default_device(here)
pool = MemPool(here, driver=driver)
streams = [Stream(here, driver=driver) for _ in range(3)]
def make():
    made = Tensor.uninitialized(64, "f32", driver=driver, ordinal=-1, stream=streams[0].handle, pool=pool.handle)
    driver._bytes(made.ptr, made.nbytes).fill(0)  # sums of what was there may be no numbers, of which NumPy warns
    return made
tensors = [make() for _ in range(300)]
views = [t[0:8] for t in tensors[:100]]
shares = [t.share() for t in tensors[100:200]]
cycle = [make(), views]
cycle.append(cycle)
def op():
    return module.ops.add(make(), shares[0], shares[1])
futures = [op().future() for _ in range(50)]
for future in futures:
    future.add_done_callback(lambda f: f.done())
waiting = [op() for _ in range(50)]
kept = op().shared()
launched = threading.Semaphore(0)
def launches():
    while not over.is_set():
        op().future()
        launched.release()
        time.sleep(0.0005)
async def loop():
    while not over.is_set():
        await op()
threads = [threading.Thread(target=target, daemon=True) for target in (launches, lambda: asyncio.run(loop()))]
for thread in threads:
    thread.start()
for _ in range(100):
    launched.acquire()
here.sync()
"""
FORK = """
import os, sys, threading, time, warnings
import numpy as np
from tests.cpu_samples import device, ones
from tilec_runtime import Device, Stream, Tensor, as_op, set_default_device

warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # since Python 3.12; that is what is tried

module, driver = device()
here = Device("cpu", driver=driver)
set_default_device(here)
stop = threading.Event()
x = Tensor.from_foreign(ones(64), driver=driver).share()
started = threading.Barrier(4)
def work():
    started.wait()
    while not stop.is_set():
        module.ops.add(Tensor.from_foreign(ones(64), driver=driver), x, x).sync()
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
started.wait()
for _ in range(5):
    child = os.fork()
    if not child:
        own = Tensor.from_foreign(ones(64), driver=driver).share()  # threads of the parent may have locks of `x`
        z = module.ops.add(Tensor.from_foreign(ones(64), driver=driver), own, own).future().result(20)[0]
        os.write(1, f"{np.asarray(z)[0]}\\n".encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    time.sleep(0.01)
stop.set()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize(
    ("code", "printed"),
    [(FORK, "2.0\n" * 5), (LOCKED, "2.0\n")],
    ids=["threads that launch", "locks of other threads"],
)
def test_a_child_of_a_fork_goes_on_and_ends(code: str, printed: str) -> None:
    """On the cpu device; CUDA does not survive a fork, and says so."""
    assert run_python(code) == (0, printed, "")
