"""DeviceFuture: done, result and callbacks; await under asyncio, trio and anyio; cancellation keeps
arguments until the device is done.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import logging
import multiprocessing
import threading
import weakref
from typing import Any

import anyio
import numpy as np
import pytest

from tests.cpu_samples import ones
from tests.unit.runtime.ops.device_samples import Held
from tests.waiting import PATIENCE, becomes
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import (
    Device,
    DeviceOp,
    ExecutionContext,
    as_op,
    use_device,
    with_context,
    zip_ops,
)
from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.errors import DriverError, NestedExecutionError, UsedOpError
from tilec_runtime.ops.future import DeviceFuture

HERE = "test_future.py"


def grow(held: Held, x: Any, *also: Any) -> DeviceOp[Any]:
    """z = x + 1; `also` is kept until the device is done."""

    def body(ctx: ExecutionContext) -> Any:
        ctx.keep(*also)
        return held.add(ctx, np.zeros_like(x), x)

    return with_context(body)


class Thing:
    """Something whose end can be seen."""


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


def test_an_interrupt_that_comes_with_the_outcome_is_not_taken_for_it(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    future = grow(held, ones(4)).future()
    assert future.result().tolist() == [2.0] * 4

    def press(self: DeviceFuture[Any], timeout: float | None) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(concurrent.futures.Future, "exception", press)
        with pytest.raises(KeyboardInterrupt):
            future.exception()
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


def test_callbacks_are_called_once_each(held: Held) -> None:
    called: list[tuple[DeviceFuture[Any], str]] = []
    with held.held():
        future = grow(held, ones(4)).future()
        future.add_done_callback(lambda f: called.append((f, threading.current_thread().name)))
    assert becomes(lambda: len(called) == 1)
    assert called[0][0] is future
    future.add_done_callback(lambda f: called.append((f, threading.current_thread().name)))
    assert called[1] == (future, threading.current_thread().name)


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_callback_that_raises_is_logged_and_ends_no_thread(
    held: Held, caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    called: list[int] = []

    def leave(_: object) -> None:
        raise kind("mine")

    with caplog.at_level(logging.ERROR, "tilec_runtime"):
        with held.held():
            future = grow(held, ones(4)).future()
            future.add_done_callback(leave)
            future.add_done_callback(lambda _: called.append(1))
        assert becomes(lambda: called == [1])
        assert grow(held, ones(4)).future().result(PATIENCE).tolist() == [2.0] * 4
    assert becomes(lambda: "a callback of <DeviceFuture done" in caplog.text)


def test_an_error_while_enqueuing_is_in_the_future(held: Held) -> None:
    def fail(_: object) -> None:
        raise DriverError("refused")

    future = with_context(fail).future()
    assert future.done()
    assert repr(future).startswith("<DeviceFuture failed: ")
    with pytest.raises(DriverError, match=rf"refused\n  op: with_context, created at .*{HERE}"):
        future.result()
    assert isinstance(future.exception(), DriverError)


def test_an_error_of_the_device_is_in_the_future(held: Held) -> None:
    held.fail = True
    future = grow(held, ones(4)).future()
    with pytest.raises(OSError, match="the kernel failed") as caught:
        future.result()
    assert future.exception() is caught.value
    held.fail = False
    for _ in range(8):  # every stream of the policy still works
        assert grow(held, ones(4)).sync().tolist() == [2.0] * 4


def test_what_is_wrong_at_the_call_is_raised_there(held: Held) -> None:
    op = as_op(1)
    op.sync()
    with pytest.raises(UsedOpError):
        op.future()
    nested = as_op(2).map(lambda _: as_op(3).future()).future()
    with pytest.raises(NestedExecutionError):
        nested.result()


def test_a_lost_device_fails_what_waits() -> None:
    driver = FakeDriver()
    driver.fail["synchronize"] = "CUDA_ERROR_ILLEGAL_ADDRESS"
    with (
        use_device(Device(0, driver=driver)),
        pytest.raises(DriverError, match="CUDA_ERROR_ILLEGAL_ADDRESS"),
    ):
        as_op(1).sync()
    driver = FakeDriver()

    def lost(*_: object) -> bool:
        raise DriverError("cuEventQuery failed: CUDA_ERROR_ILLEGAL_ADDRESS")

    driver.event_reached = lost
    driver.event_failure = lost
    with use_device(Device(0, driver=driver)):
        future = as_op(1).future()
    with pytest.raises(DriverError, match=r"cuEventQuery failed(.|\n)*op: value, created at"):
        future.result()


# --- asyncio
# ---------------------------------------------------------------------------------------------------------------------


def test_errors_reach_the_task_with_the_place_of_the_op(held: Held) -> None:
    async def main() -> None:
        await zip_ops(as_op(1), with_context(fail))

    def fail(_: object) -> None:
        raise DriverError("refused")

    with pytest.raises(
        DriverError, match=rf"refused\n  op: with_context, created at .*{HERE}:\d+$"
    ):
        asyncio.run(main())


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


def test_two_tasks_may_await_one_future(held: Held) -> None:
    async def main() -> list[Any]:
        with held.held():
            future = grow(held, ones(4)).future()
            tasks = [asyncio.ensure_future(_await(future)) for _ in range(2)]
            await asyncio.sleep(0.005)
        return list(await asyncio.gather(*tasks))

    one, other = asyncio.run(main())
    assert one is other


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


def test_completion_threads_sleep_and_sync_spins() -> None:
    """A thread that spins takes a processor for as long as the device works; one that sleeps wakes
    up later.
    """
    made: list[bool] = []

    class Noting(FakeDriver):
        def create_event(self, ordinal: int, *, timed: bool = True, blocking: bool = False) -> int:
            made.append(blocking)
            return super().create_event(ordinal, timed=timed, blocking=blocking)

    with use_device(Device(0, driver=Noting())):
        as_op(1).sync()
        assert made == []
        assert as_op(1).future().result(PATIENCE) == 1
        assert made == [True]


def test_draining_waits_until_nothing_is_kept(held: Held) -> None:
    thing = Thing()
    alive = weakref.ref(thing)
    stream = held.device.new_stream()
    with held.held():
        grow(held, ones(4), thing).enqueue_on(stream)
        del thing
        assert not COMPLETIONS.drain(0.01)
        assert alive() is not None
    assert COMPLETIONS.drain(PATIENCE)
    assert becomes(lambda: alive() is None)


def _child(results: Any) -> None:
    with use_device("cpu"):
        results.put(as_op(3).map(lambda x: x + 1).future().result(timeout=PATIENCE))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_completion_threads_of_its_own(held: Held) -> None:
    with held.held():
        future = grow(held, ones(4)).future()
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        child = context.Process(target=_child, args=(results,))
        child.start()
        assert results.get(timeout=PATIENCE) == 4
        child.join(PATIENCE)
    assert future.result().tolist() == [2.0] * 4


async def _await(thing: Any) -> Any:
    return await thing
