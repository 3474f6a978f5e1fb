"""Ctrl-C while something waits: the work goes on with all that it needs, the next call works, and
nothing is kept for ever.
"""

from __future__ import annotations

import _thread
import asyncio
import gc
import logging
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ones
from tests.unit.runtime.ops.device_samples import CPU, Held
from tests.waiting import PATIENCE, becomes
from tilec_runtime import DeviceOp, ExecutionContext, with_context
from tilec_runtime.cpu.queue import QueueMark as CpuMark
from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.ops.future import DeviceFuture
from tilec_runtime.tensors.tensor import Tensor


class Thing:
    """Something whose end can be seen."""


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Make a call during whose wait Ctrl-C is pressed."""

    def make(call: Callable[[], object]) -> None:
        me, wait = threading.current_thread(), CpuMark.wait

        def press(self: CpuMark, given_up: Callable[[], bool]) -> None:
            if threading.current_thread() is me:  # streams wait for each other in this way too
                raise KeyboardInterrupt
            wait(self, given_up)

        with monkeypatch.context() as patch:
            patch.setattr(CpuMark, "wait", press)
            with pytest.raises(KeyboardInterrupt):
                call()

    return make


Interrupt = Callable[[Callable[[], object]], None]


def tensor(held: Held, number: float) -> Tensor:
    made = Tensor.uninitialized((8,), "f32", driver=held.driver, ordinal=CPU, stream=0)
    np.asarray(made)[...] = number
    return made


def test_the_work_goes_on_and_keeps_what_it_needs(held: Held, interrupted: Interrupt) -> None:
    target, thing = np.zeros(4, np.float32), Thing()
    alive = weakref.ref(thing)

    def body(ctx: ExecutionContext, also: object) -> Any:
        ctx.keep(also)
        return held.add(ctx, target, ones(4))

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


def test_memory_is_freed_behind_the_work_and_not_before(held: Held, interrupted: Interrupt) -> None:
    z, x, y = tensor(held, 0), tensor(held, 3), tensor(held, 4)
    address = z.ptr
    frees: list[int] = []
    free = held.driver._free
    held.driver._free = lambda at: (frees.append(at), free(at))[1]  # type: ignore[method-assign, assignment, func-returns-value]
    with held.held():
        interrupted(held.module.ops.add(z, x, y).sync)
        x.borrow_mut().release()  # what moved in is back
        del z, x, y
        gc.collect()
        assert frees == []
    assert becomes(lambda: address in frees)
    assert held.runs == 1


def test_a_failure_of_work_that_nobody_waits_for_is_logged_and_told_to_nobody_else(
    held: Held, interrupted: Interrupt, caplog: pytest.LogCaptureFixture
) -> None:
    def grow(stream: object) -> Any:
        return with_context(lambda ctx: held.add(ctx, np.zeros(4, np.float32), ones(4))).sync_on(
            stream
        )  # type: ignore[arg-type]

    stream = held.device.new_stream()
    held.fail = True
    with held.held():
        interrupted(lambda: grow(stream))
    assert becomes(
        lambda: "work of an op failed whose wait was interrupted: the kernel failed" in caplog.text
    )
    held.fail = False
    assert grow(stream).tolist() == [2.0] * 4


def test_a_future_whose_wait_was_interrupted_gives_its_result_later(
    held: Held, interrupted: Interrupt
) -> None:
    with held.held():
        future = with_context(lambda ctx: held.add(ctx, np.zeros(4, np.float32), ones(4))).future()
        interrupted(future.result)
    assert future.result().tolist() == [2.0] * 4


def test_a_real_interrupt_ends_the_wait_and_not_the_work(held: Held) -> None:
    target = np.zeros(4, np.float32)
    future = with_context(lambda ctx: held.add(ctx, np.zeros(4, np.float32), ones(4))).future()
    assert future.result().tolist() == [2.0] * 4
    with held.held():
        threading.Timer(0.05, _thread.interrupt_main).start()
        with pytest.raises(KeyboardInterrupt):
            with_context(lambda ctx: held.add(ctx, target, ones(4))).sync()
        assert target.tolist() == [0.0] * 4
    assert COMPLETIONS.drain(PATIENCE)
    assert target.tolist() == [2.0] * 4


# --- errors that nobody asks for
# -------------------------------------------------------------------------------------------------


def failing(held: Held) -> DeviceOp[Any]:
    held.fail = True
    return with_context(lambda ctx: held.add(ctx, np.zeros(4, np.float32), ones(4)))


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


@pytest.mark.parametrize("way", ["result", "exception", "await"])
def test_who_asked_was_told(held: Held, caplog: pytest.LogCaptureFixture, way: str) -> None:
    future = failing(held).future()
    if way == "exception":
        assert isinstance(future.exception(), OSError)
    elif way == "result":
        with pytest.raises(OSError, match="the kernel failed"):
            future.result()
    else:

        async def main(asked: DeviceFuture[Any]) -> None:
            await asked

        with pytest.raises(OSError, match="the kernel failed"):
            asyncio.run(main(future))
    del future
    gc.collect()
    assert told(caplog) == []


def test_who_cancelled_does_not_want_to_know(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        with held.held():
            future = failing(held).future()

            async def ask() -> Any:
                return await future

            task = asyncio.ensure_future(ask())
            await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert COMPLETIONS.drain(PATIENCE)
    gc.collect()
    assert told(caplog) == []


def test_a_result_that_nobody_asked_for_is_no_news(
    held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    with_context(lambda ctx: held.add(ctx, np.zeros(4, np.float32), ones(4))).future()
    assert COMPLETIONS.drain(PATIENCE)
    gc.collect()
    assert told(caplog) == []


def test_a_process_that_ends_asks_nobody() -> None:
    code = """
from tilec_runtime import use_device, with_context
def fail(ctx):
    raise OSError("mine")
with use_device("cpu"):
    kept = with_context(fail).future()
    kept.me = kept
    print("end")
"""
    root = Path(__file__).resolve().parents[4]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        cwd=root,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("end\n", "", 0)
