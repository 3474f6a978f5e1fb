"""Ctrl-C while something waits: the work goes on with all that it needs, the next call works, and
nothing is kept for ever.
"""

from __future__ import annotations

import _thread
import gc
import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ones
from tests.unit.runtime.ops.device_samples import Held, Thing
from tests.waiting import becomes
from tilec_runtime import DeviceOp, ExecutionContext, with_context
from tilec_runtime.cpu.queue import QueueEvent


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Make a call during whose wait Ctrl-C is pressed."""

    def make(call: Callable[[], object]) -> None:
        me, wait = threading.current_thread(), QueueEvent.wait

        def press(self: QueueEvent, given_up: Callable[[], bool]) -> None:
            if threading.current_thread() is me:  # streams wait for each other in this way too
                _thread.interrupt_main()
            wait(self, given_up)

        with monkeypatch.context() as patch:
            patch.setattr(QueueEvent, "wait", press)
            with pytest.raises(KeyboardInterrupt):
                call()

    return make


Interrupt = Callable[[Callable[[], object]], None]


def test_the_work_goes_on_and_keeps_what_it_needs(held: Held, interrupted: Interrupt) -> None:
    target, thing = np.zeros(4, np.float32), Thing()
    alive = weakref.ref(thing)

    def body(ctx: ExecutionContext, also: object) -> Any:
        ctx.keep(also)
        return held.increment(ctx, target, ones(4))

    op: DeviceOp[Any] = with_context(lambda ctx, also=thing: body(ctx, also))  # type: ignore[misc]
    del thing
    with held.held():
        interrupted(op.sync)
        del op
        gc.collect()
        assert alive() is not None, "the device still uses it"
        assert held.runs == 0
    assert becomes(lambda: alive() is None)
    assert held.runs == 1
    assert target.tolist() == [2.0] * 4


def test_a_failure_of_work_that_nobody_waits_for_is_logged_and_told_to_nobody_else(
    held: Held, interrupted: Interrupt, caplog: pytest.LogCaptureFixture
) -> None:
    def grow(stream: object) -> Any:
        return with_context(
            lambda ctx: held.increment(ctx, np.zeros(4, np.float32), ones(4))
        ).sync_on(stream)  # type: ignore[arg-type]

    stream = held.device.new_stream()
    held.fail = True
    with held.held():
        interrupted(lambda: grow(stream))
    assert becomes(
        lambda: "work of an op failed whose wait was interrupted: the kernel failed" in caplog.text
    )
    held.fail = False
    assert grow(stream).tolist() == [2.0] * 4


# --- errors that nobody asks for
# -------------------------------------------------------------------------------------------------


def failing(held: Held) -> DeviceOp[Any]:
    held.fail = True
    return with_context(lambda ctx: held.increment(ctx, np.zeros(4, np.float32), ones(4)))


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_future_that_failed_and_that_nobody_asked_says_so_once(
    held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    future = failing(held).future()
    assert becomes(future.done)
    assert told(caplog) == [], "it may still be asked"
    del future
    assert becomes(lambda: bool(told(caplog)))
    (message,) = told(caplog)
    assert message.startswith("with_context, created at ")
    assert message.endswith(" failed, and nobody asked its future: the kernel failed")
    assert caplog.records[0].exc_info is not None, "with the traceback"


def test_who_asked_was_told(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    future = failing(held).future()
    assert isinstance(future.exception(), OSError)
    del future
    gc.collect()
    assert told(caplog) == []
