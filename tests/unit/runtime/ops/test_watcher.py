"""The watcher's thread: nothing that goes wrong around it leaves somebody waiting for ever."""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import Any

import pytest

from tests.waiting import PATIENCE, becomes
from tilec.runtime import Device, DeviceOp, ExecutionContext, use_device, value, with_context
from tilec.runtime.cpu_driver import CpuDriver
from tilec.runtime.marks import Mark
from tilec.runtime.ops import watcher as module
from tilec.runtime.ops.watcher import Watcher
from tilec.runtime.tensors.drops import Drops

CPU = -1


class Odd(CpuDriver):
    """A device that cannot say whether it is done."""

    odd = True

    def event_reached(self, ordinal: int, event: int) -> bool:
        if self.odd:
            raise ValueError("255 is not a valid CUresult")
        return super().event_reached(ordinal, event)


def test_whoever_waits_is_told_of_errors_of_any_kind() -> None:
    """The bindings raise what is no error of tilec, for one where they do not know a result."""
    driver, watcher = Odd(), Watcher()
    told: list[Any] = []
    watcher.watch(Mark(driver, CPU, 0), 0, told.append)
    assert becomes(lambda: told)
    assert str(told[0]) == "255 is not a valid CUresult"
    driver.odd = False
    watcher.watch(Mark(driver, CPU, 0), 0, told.append)
    assert becomes(lambda: told[1:] == [None])


def test_what_is_kept_is_let_go_where_nobody_can_tell_whether_it_is_used(caplog: pytest.LogCaptureFixture) -> None:
    drops = Drops()
    drops.keep((Mark(Odd(), CPU, 0),), object())
    assert drops.drain() == 0
    assert "whether a device is done cannot be told" in caplog.text


def test_a_machine_without_threads_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unstarted(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    driver, watcher = Device("cpu").driver, Watcher()
    told: list[Any] = []
    marks = [Mark(driver, CPU, 0) for _ in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(module.threading, "Thread", Unstarted)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            watcher.watch(marks[0], 0, told.append)
    watcher.watch(marks[1], 0, told.append)
    assert becomes(lambda: told == [None, None])


def test_whoever_hears_by_a_wait_of_its_own_does_not_hold_up_the_others() -> None:
    """Their marks are given up with the next one of the stream, and nobody counts as waiting."""

    class Waits:
        future: object | None = object()

        def __call__(self, _: object) -> None:
            told.append(self)

    driver, watcher = Odd(), Watcher()
    told: list[Any] = []
    watcher._thread = threading.current_thread()  # nobody looks
    waits = [Waits() for _ in range(3)]
    for one in waits[:2]:
        watcher.watch(Mark(driver, CPU, 0), 0, one)
    assert watcher.busy
    waits[0].future = waits[1].future = None
    assert not watcher.busy
    watcher.watch(Mark(driver, CPU, 0), 0, waits[2])
    assert watcher.busy
    ((line),) = watcher._lines.values()
    assert [entry[1] for entry in line] == [waits[2]]
    watcher._round()
    assert (told, watcher.busy, watcher._lines) == ([waits[2]], False, {})


def test_all_marks_that_are_reached_are_told_of_at_once() -> None:
    driver, watcher = Odd(), Watcher()
    watcher._thread = threading.current_thread()
    told: list[Any] = []
    for stream in (0, 0, 0):
        watcher.watch(Mark(driver, CPU, stream), stream, told.append)
    assert watcher._round()
    assert len(told) == 3
    assert not watcher._round()


def slack() -> int:
    """Nanoseconds by which this thread's pauses may be longer; no more than 0 where nobody says."""
    return int(ctypes.CDLL(None).prctl(30, 0, 0, 0, 0)) if sys.platform == "linux" else 0  # PR_GET_TIMERSLACK


@pytest.mark.skipif(slack() <= 0, reason="pauses are what they are here")
def test_the_watchers_pauses_are_no_longer_than_they_are_meant_to_be() -> None:
    """Threads that watch sleep as Linux lets others sleep, 50 us more, which is more than the pauses themselves."""
    before, found = slack(), []
    watcher = Watcher()
    watcher.watch(Mark(Device("cpu").driver, CPU, 0), 0, lambda _: found.append(slack()))
    assert becomes(lambda: found)
    assert (found, slack()) == ([1000], before)


# --- what an op came to reaches whoever waits, whatever is wrong with it ------------------------------------------------------------


class Unnoted(Exception):  # noqa: N818 - a class of somebody else
    """An error that refuses notes, and to be asked for them."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("add_note", "__notes__"):
            raise LookupError(name)
        return super().__getattribute__(name)


def failing(error: Exception, moved: Any = None) -> DeviceOp[None]:
    """An op whose work on the device fails, and into which something has moved."""

    def fail() -> None:
        raise error

    def body(ctx: ExecutionContext) -> DeviceOp[None]:
        ctx.driver.call(ctx.stream, "fail", fail, [])
        if moved is not None:
            ctx.moved(moved, object())
        return value(None)

    return with_context(body)


def test_an_error_that_cannot_be_noted_on_is_the_ops_all_the_same() -> None:
    spoilt = ValueError("with notes of its own")
    spoilt.__notes__ = ()  # type: ignore[assignment]
    with use_device("cpu"):
        with pytest.raises(Unnoted):
            failing(Unnoted()).future().result(PATIENCE)
        with pytest.raises(ValueError, match="with notes of its own"):
            failing(spoilt).future().result(PATIENCE)


def test_an_op_fails_also_where_what_moved_in_cannot_be_given_back(caplog: pytest.LogCaptureFixture) -> None:
    with use_device("cpu"):
        future = failing(ValueError("the device's"), moved=object()).future()
    with pytest.raises(ValueError, match="the device's"):
        future.result(PATIENCE)
    assert "could not be given back" in caplog.text
