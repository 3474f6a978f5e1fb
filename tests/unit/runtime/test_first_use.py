"""The first use of a device, by many threads at once, in processes of their own."""

from __future__ import annotations

import os
import signal
import threading
import warnings

import pytest

from tests.processes import run_python
from tests.waiting import joined
from tilec_runtime.launch.images import ImageStore

TOGETHER = """
import sys, threading, time
sys.setswitchinterval(1e-5)
failures = []
def together(use, threads=12):
    start = threading.Barrier(threads)
    def run():
        start.wait(60)
        try:
            use()
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")
    all_ = [threading.Thread(target=run) for _ in range(threads)]
    for thread in all_:
        thread.start()
    for thread in all_:
        thread.join(60)
    print(failures)
"""
CPU = """
import numpy as np
from tests.cpu_samples import ADD, PythonKernels, add, bundle_of, ones
from tilec_runtime import Stream, load
from tilec_runtime.cpu import driver as cpu_driver
from tilec_runtime.cpu.launch import CpuOptions
def slowly(driver):
    time.sleep(0.01)
    made.append(driver)
made = []
cpu_driver.CpuDriver = lambda: slowly(PythonKernels(CpuOptions(run=add))) or made[-1]
def use():
    stream, z, x = Stream("cpu"), ones(4), ones(4)
    load(bundle_of(ADD), "cpu").add(z, x, x, alpha=1.0, stream=stream)
    stream.sync()
    assert z[0] == 2
together(use)
print(len(made))
"""
CUDA = """
from tilec_runtime.device import driver as _driver
made, got = [], set()
def slowly(api):
    time.sleep(0.01)
    made.append(object())
    return made[-1]
_driver.Driver, _driver.Libcuda = slowly, object
together(lambda: got.add(_driver.driver()))
print(max(len(made), len(got)))
"""
FAILS = """
from tilec_runtime.forks import Once
tries = []
@Once
def value():
    tries.append(1)
    if len(tries) == 1:
        raise OSError("not yet")
    return object()
together(value)
print(len(tries) - 1)
"""


@pytest.mark.parametrize(
    ("code", "failures"),
    [(CPU, []), (CUDA, []), (FAILS, ["OSError: not yet"])],
    ids=["cpu", "cuda", "fails once"],
)
def test_threads_that_come_first_share_one_driver(code: str, failures: list[str]) -> None:
    assert run_python(TOGETHER + code) == (0, f"{failures}\n1\n", "")


def test_an_image_that_is_loaded_at_a_fork_can_be_loaded_in_the_child() -> None:
    store, started, go = ImageStore(), threading.Event(), threading.Event()

    def slowly() -> int:
        started.set()
        go.wait(60)
        return 1

    thread = threading.Thread(target=lambda: store._once(("image",), slowly))
    thread.start()
    assert started.wait(60)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # newer Pythons warn of forks beside threads
        child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(store._once(("image",), lambda: 7))
    go.set()
    joined(thread)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
