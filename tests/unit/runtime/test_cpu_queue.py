"""Queues of the cpu device where the collector, or want of threads, comes between: nobody may wait for ever."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.waiting import PATIENCE
from tilec.errors import DriverError
from tilec.runtime import cpu_queue
from tilec.runtime.cpu_queue import Queue


def nothing(_: Callable[[], bool]) -> None:
    """Work of no effect."""


def test_work_that_comes_while_the_thread_is_made_starts_no_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A buffer that the collector takes inside of `put` enqueues on the same queue: two threads would count two works as one."""
    queue, threads, ran = Queue("q"), [], []

    class Collecting(threading.Thread):
        """A thread while whose making the collector runs."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            threads.append(self)
            if len(threads) == 1:
                queue.put(lambda _: ran.append("inner"))

    monkeypatch.setattr(cpu_queue.threading, "Thread", Collecting)
    number = queue.put(lambda _: ran.append("outer"))
    assert queue.wait_for(2, PATIENCE)
    assert (number, queue.position, sorted(ran)) == (1, 2, ["inner", "outer"])
    assert sum(thread.ident is not None for thread in threads) == 1


def test_work_that_comes_while_the_thread_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, ran = Queue("q"), []

    class Collecting(threading.Thread):
        def start(self) -> None:
            queue.put(lambda _: ran.append("inner"))
            super().start()

    monkeypatch.setattr(cpu_queue.threading, "Thread", Collecting)
    assert queue.put(lambda _: ran.append("outer")) == 1
    assert queue.wait_for(2, PATIENCE)
    assert ran == ["outer", "inner"]


def test_a_machine_without_threads_is_an_error_and_the_queue_goes_on_later(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, ran = Queue("stream 0x10 of the cpu device"), []

    class Unstarted(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(cpu_queue.threading, "Thread", Unstarted)
        with pytest.raises(DriverError, match="no thread can be started for stream 0x10 of the cpu device: can't start new thread"):
            queue.put(lambda _: ran.append("refused"))
    assert (queue.position, queue.idle) == (0, True)
    number = queue.put(lambda _: ran.append("later"))
    assert queue.wait_for(number, PATIENCE)
    assert ran == ["later"]


def test_a_failure_of_the_thread_itself_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of the work: of what is noted about it."""
    queue = Queue("q")

    def short(_: BaseException) -> None:
        raise MemoryError

    def fails(_: Callable[[], bool]) -> None:
        raise ValueError("the work's")

    with monkeypatch.context() as patch:
        patch.setattr(cpu_queue, "copied", short)
        assert queue.wait_for(queue.put(fails), PATIENCE)
    with pytest.raises(ValueError, match="the work's"):
        queue.check()
    assert queue.wait_for(queue.put(nothing), PATIENCE)
    gc.collect()
