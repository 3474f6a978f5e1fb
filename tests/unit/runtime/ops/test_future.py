"""DeviceFuture: done, result and callbacks; await under asyncio, trio and anyio; cancellation keeps
arguments until the device is done.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import anyio
import numpy as np
import pytest

from tests.cpu_samples import ones
from tests.unit.runtime.ops.device_samples import Held, Thing
from tests.waiting import PATIENCE, becomes
from tilec_runtime import (
    DeviceOp,
    ExecutionContext,
    with_context,
)

HERE = "test_future.py"


def grow(held: Held, x: Any, *also: Any) -> DeviceOp[Any]:
    """z = x + 1; `also` is kept until the device is done."""

    def body(ctx: ExecutionContext) -> Any:
        ctx.keep(*also)
        return held.increment(ctx, np.zeros_like(x), x)

    return with_context(body)


# --- without a loop
# --------------------------------------------------------------------------------------------------------------


def test_a_future_is_enqueued_at_once_and_done_later(held: Held) -> None:
    with held.held():
        future = grow(held, ones(4)).future()
        assert not future.done()
        assert repr(future).startswith("<DeviceFuture running: with_context, created at ")
    assert future.result().tolist() == [2.0] * 4
    assert future.done()
    assert repr(future).startswith("<DeviceFuture done: ")
    assert future.result() is future.result()
    assert future.exception() is None


def test_a_wait_can_be_bounded(held: Held) -> None:
    with held.held():
        future = grow(held, ones(4)).future()
        with pytest.raises(
            TimeoutError,
            match=rf"the device is not done with with_context, created at .*{HERE}:\d+ after 0.01 s",
        ):
            future.result(timeout=0.01)
        with pytest.raises(TimeoutError):
            future.exception(timeout=0.01)
    assert future.result(timeout=PATIENCE).tolist() == [2.0] * 4


@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_a_callback_that_raises_is_logged_and_ends_no_thread(
    held: Held, caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    def leave(_: object) -> None:
        raise kind("mine")

    with held.held():
        future = grow(held, ones(4)).future()
        future.add_done_callback(leave)
    assert becomes(lambda: "mine" in caplog.text)
    assert grow(held, ones(4)).future().result(PATIENCE).tolist() == [2.0] * 4


# --- asyncio
# ---------------------------------------------------------------------------------------------------------------------


def test_a_future_whose_await_was_cancelled_gives_the_result_all_the_same(held: Held) -> None:
    async def main() -> Any:
        future = grow(held, ones(4)).future()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_await(future), 0.01)
        held.gate.set()
        return await future

    held.gate.clear()
    assert asyncio.run(main()).tolist() == [2.0] * 4


def test_a_loop_that_is_closed_meanwhile_harms_nobody(
    held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.new_event_loop()
    with held.held():
        future = grow(held, ones(4)).future()
        task = loop.create_task(_await(future))
        loop.run_until_complete(asyncio.sleep(0.005))
        task.cancel()
        loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.close()
    assert future.result().tolist() == [2.0] * 4
    assert caplog.text == ""


# --- trio and anyio
# ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_await_under_anyio(held: Held, backend: str) -> None:
    results: list[Any] = []

    async def one(op: DeviceOp[Any]) -> None:
        results.append((await op).tolist())

    async def main() -> None:
        with held.held():
            async with anyio.create_task_group() as group:
                for i in range(50):
                    group.start_soon(one, grow(held, np.full(2, i, np.float32)))
                await anyio.sleep(0.01)
                assert results == []
                held.gate.set()

    anyio.run(main, backend=backend)
    assert sorted(results) == [[i + 1.0] * 2 for i in range(50)]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_cancellation_under_anyio(held: Held, backend: str) -> None:
    alive: list[Any] = []

    async def main() -> None:
        also = Thing()
        alive.append(weakref.ref(also))
        op = grow(held, ones(4), also)
        del also
        with anyio.move_on_after(0.01) as scope:
            await op
        assert scope.cancelled_caught
        del op
        gc.collect()
        assert alive[0]() is not None

    with held.held():
        anyio.run(main, backend=backend)
        gc.collect()
        assert alive[0]() is not None
    assert becomes(lambda: alive[0]() is None)


# --- completion threads
# ----------------------------------------------------------------------------------------------------------


async def _await(thing: Any) -> Any:
    return await thing
