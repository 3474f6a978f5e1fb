"""Completion threads: nothing that goes wrong around them leaves a caller waiting for ever."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.waiting import PATIENCE, Gate, becomes, joined
from tilec_runtime import Device
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.device import completion as module
from tilec_runtime.device.completion import Completions
from tilec_runtime.device.lines import RecordedEvent, line_of

CPU = -1


class Odd(CpuDriver):
    """A device that cannot say whether it is done."""

    odd = True

    def synchronize_event(self, ordinal: int, event: int) -> None:
        if self.odd:
            raise ValueError("255 is not a valid CUresult")
        super().synchronize_event(ordinal, event)


def test_whoever_waits_is_told_of_errors_of_any_kind() -> None:
    """The bindings raise what is no error of tilec, for one where they do not know a result."""
    driver, completions = Odd(), Completions()
    told: list[Any] = []
    completions.watch(RecordedEvent(driver, line_of(driver, CPU, 0)), 0, told.append)
    assert completions.drain(PATIENCE)
    assert [str(error) for error in told] == ["255 is not a valid CUresult"]
    driver.odd = False
    completions.watch(RecordedEvent(driver, line_of(driver, CPU, 0)), 0, told.append)
    assert completions.drain(PATIENCE)
    assert told[1:] == [None]


def test_a_machine_without_threads_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unstarted(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    driver, completions = Device("cpu").driver, Completions()
    told: list[Any] = []
    events = [RecordedEvent(driver, line_of(driver, CPU, 0)) for _ in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(module.threading, "Thread", Unstarted)
        completions.watch(events[0], 0, told.append)
        assert told == [None], "the calling thread waits, as where an interpreter ends"
    completions.watch(events[1], 0, told.append)
    assert completions.drain(PATIENCE)
    assert told == [None, None]


def test_a_stream_is_not_held_up_by_another_one() -> None:
    driver, completions, gate = CpuDriver(), Completions(), Gate()
    gate.open.clear()
    told: list[str] = []
    slow, quick = (driver.create_stream(CPU) for _ in range(2))
    driver.call(slow, "wait", gate, [])
    completions.watch(
        RecordedEvent(driver, line_of(driver, CPU, slow)), slow, lambda _: told.append("slow")
    )
    completions.watch(
        RecordedEvent(driver, line_of(driver, CPU, quick)), quick, lambda _: told.append("quick")
    )
    assert becomes(lambda: told == ["quick"])
    assert completions.busy
    gate.open.set()
    assert completions.drain(PATIENCE)
    assert told == ["quick", "slow"]


def test_a_thread_ends_without_work_and_another_one_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LINGER", 0.0)
    driver, completions = CpuDriver(), Completions()
    threads: list[threading.Thread] = []
    for _ in range(2):
        completions.watch(
            RecordedEvent(driver, line_of(driver, CPU, 0)),
            0,
            lambda _: threads.append(threading.current_thread()),
        )
        assert completions.drain(PATIENCE)
        joined(threads[-1])
    assert all(thread.daemon for thread in threads)
    assert threads[0] is not threads[1]
