"""Queues of the cpu device where the collector, or want of threads, comes between: nobody may wait
for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.waiting import PATIENCE, joined
from tilec_runtime import api
from tilec_runtime.cpu import queue as cpu_queue
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.cpu.queue import Queue, QueueEvent
from tilec_runtime.device.streams import Stream
from tilec_runtime.errors import DriverError


def nothing(_: Callable[[], bool]) -> None:
    """Work of no effect."""


@pytest.mark.parametrize("when", ["__init__", "start"])
def test_work_that_comes_while_the_thread_is_made_starts_no_second_one(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A buffer that the collector takes inside of `put` enqueues on the same queue: two threads
    would count two works as one.
    """
    queue, threads, ran = Queue("q"), [], []
    real = getattr(threading.Thread, when)

    def collecting(self: threading.Thread, *args: Any, **options: Any) -> None:
        threads.append(self)
        if len(threads) == 1:
            queue.put(lambda _: ran.append("inner"))
        real(self, *args, **options)

    collected = type("Collecting", (threading.Thread,), {when: collecting})
    monkeypatch.setattr(cpu_queue.threading, "Thread", collected)
    assert queue.put(lambda _: ran.append("outer")) == 1
    assert queue.wait_for(2, PATIENCE)
    assert (queue.position, sorted(ran)) == (2, ["inner", "outer"])
    assert sum(thread.ident is not None for thread in threads) == 1


def test_a_machine_without_threads_is_an_error_and_the_queue_goes_on_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue, ran = Queue("stream 0x10 of the cpu device"), []

    class Unstarted(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(cpu_queue.threading, "Thread", Unstarted)
        with pytest.raises(
            DriverError,
            match="no thread can be started for stream 0x10 of the cpu device: can't start new thread",
        ):
            queue.put(lambda _: ran.append("refused"))
    assert (queue.position, queue.idle) == (0, True)
    number = queue.put(lambda _: ran.append("later"))
    assert queue.wait_for(number, PATIENCE)
    assert ran == ["later"]


class Truthless(Exception):  # noqa: N818 - a class of somebody else
    """An error that cannot be asked whether it is one, as those of array libraries cannot."""

    def __bool__(self) -> bool:
        raise TypeError("the truth of this is ambiguous")


NAMELESS: dict[str, Any] = {"__name__": None, "Truthless": Truthless}
exec("def first(_): raise ValueError from Truthless()\ndef second(_): raise Truthless", NAMELESS)


@pytest.mark.parametrize(("name", "kind"), [("first", ValueError), ("second", Truthless)])
def test_errors_and_frames_of_others_do_not_end_the_thread(name: str, kind: type) -> None:
    queue = Queue("q")
    queue.put(NAMELESS[name])
    assert queue.wait_for(queue.put(NAMELESS[name], always=True), PATIENCE)
    with pytest.raises(kind):
        queue.check()
    assert queue.wait_for(queue.put(nothing), PATIENCE)


def test_work_that_waits_for_what_comes_behind_it_is_told_so() -> None:
    queue, reached = Queue("stream 0x10 of the cpu device"), threading.Event()

    def waits(_: Callable[[], bool]) -> None:
        QueueEvent(queue).wait(reached.is_set)

    try:
        assert queue.wait_for(queue.put(waits), PATIENCE)
    finally:
        reached.set()
    with pytest.raises(
        RuntimeError,
        match=r"^work on stream 0x10 of the cpu device waits for work behind it (?s:.*)fix: wait",
    ):
        queue.check()


def test_refuses_to_wait_on_a_streams_own_thread() -> None:
    """What the op uses stays until the work is done."""
    driver, said, go = CpuDriver(), [], threading.Event()
    with Stream("cpu", driver=driver) as stream:

        def reads() -> None:
            try:
                api.zeros(4).sync_on(stream)
            except RuntimeError as error:
                said.append(str(error))
            go.set()

        driver.call(stream.handle, "read", reads, [])
        assert go.wait(PATIENCE)
        stream.sync()
    assert "would be for ever" in said[0]


def test_the_thread_of_a_stream_that_was_given_back_ends_with_its_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Programs that make a stream for each request would have a thread for each of the last half
    second, and reach their limit.
    """
    monkeypatch.setattr(cpu_queue, "_LINGER", 3600)
    driver, go = CpuDriver(), threading.Event()
    handles = [driver.create_stream(-1) for _ in range(2)]
    idle, busy = (driver._queues[handle] for handle in handles)
    assert idle.wait_for(idle.put(nothing), PATIENCE)
    late = busy.put(lambda _: go.wait(PATIENCE) and None)  # has work when its stream goes
    threads = [queue._thread for queue in (idle, busy)]
    for handle in handles:
        driver.destroy_stream(-1, handle)
    go.set()
    assert busy.wait_for(late, PATIENCE)
    joined(*threads)
    assert idle.wait_for(idle.put(nothing), PATIENCE)  # of a tensor that outlives its stream
