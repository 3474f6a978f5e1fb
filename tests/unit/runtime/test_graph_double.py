"""Captures and graphs of the drivers that need no GPU: both keep the contract, and refuse what
tilec never asks of CUDA.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from tests.cpu_samples import PacedCpu
from tests.graph_contract import BYTES, CHECKS, Rig
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime.cpu.driver import CpuDriver

RIGS: dict[str, Callable[[], Rig]] = {
    "cpu": lambda: Rig(CpuDriver(), -1),
    "cpu, held up": lambda: Rig(PacedCpu(pace=lambda: time.sleep(random.random() / 2000)), -1),
    "fake": lambda: Rig(FakeDriver(), 0),
}


@pytest.mark.parametrize("rig", RIGS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract(rig: str, check: Callable[[Rig], None]) -> None:
    check(RIGS[rig]())


@pytest.mark.parametrize("made", ["cpu", "fake"])
def test_memory_in_the_order_of_a_captured_stream_is_refused(made: str) -> None:
    """CUDA would make nodes of these, which tilec has no use for: it refuses them before."""
    rig = RIGS[made]()
    with rig.broken("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"):
        rig.driver.allocate(rig.ordinal, BYTES, rig.stream)
    address = rig.driver.allocate(rig.ordinal, BYTES, rig.other)
    with rig.broken("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"):
        rig.driver.free(rig.ordinal, address, rig.stream)
    rig.driver.free(rig.ordinal, address, rig.other)


def test_a_work_that_fails_ends_the_replay_and_is_told() -> None:
    rig = RIGS["cpu"]()
    driver = rig.driver
    done: list[str] = []

    def fail(_: object) -> None:
        raise OSError("no such luck")

    driver.begin_capture(-1, rig.stream)
    driver._put(rig.stream, "fine", lambda _: done.append("first"))
    driver._put(rig.stream, "wrong", fail)
    driver._put(rig.stream, "never", lambda _: done.append("never"))
    executable = driver.instantiate_graph(-1, driver.end_capture(-1, rig.stream))
    for _ in range(2):
        driver.launch_graph(-1, executable, rig.stream)
        with pytest.raises(OSError, match="no such luck"):
            driver.synchronize(-1, rig.stream)
    assert done == ["first", "first"]
