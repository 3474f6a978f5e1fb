"""Switching over to new outputs: nobody comes between."""

from __future__ import annotations

import os
import signal
import threading

from tests.waiting import joined
from tilec.package.publish import uninterrupted


def test_ctrl_c_does_not_come_between() -> None:
    def hear(*_: object) -> None:
        heard.append("Ctrl-C")

    heard: list[str] = []
    before = signal.signal(signal.SIGINT, hear)
    try:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
        assert heard == []
        os.kill(os.getpid(), signal.SIGINT)
        assert heard == ["Ctrl-C"]
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_leaves_signals_alone() -> None:
    def work() -> None:
        with uninterrupted():
            done.append(signal.getsignal(signal.SIGINT))

    done: list[object] = []
    thread = threading.Thread(target=work)
    thread.start()
    joined(thread)
    assert done == [signal.getsignal(signal.SIGINT)]
