"""What an execution gives its ops: memory, copies, and uses that order streams and outlive errors."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import weakref
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ones
from tests.unit.runtime.ops.device_samples import CPU, Held
from tests.waiting import becomes
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Stream
from tilec_runtime.errors import OutOfMemoryError, SchedulingError, TensorError, UsageError
from tilec_runtime.ops.combinators import as_op, with_context
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.ops.policy import SingleStream, use_policy
from tilec_runtime.tensors.storage import Storage


@dataclasses.dataclass
class Grow(DeviceOp[np.ndarray[Any, Any]]):
    """An op of a user's own."""

    held: Held
    x: np.ndarray[Any, Any]

    def _execute(self, ctx: ExecutionContext) -> np.ndarray[Any, Any]:
        return self.held.add(ctx, np.zeros_like(self.x), self.x)


HERE = "test_execution_context.py"


def test_memory_of_the_contexts_own(held: Held) -> None:
    host, back = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)

    def through_the_device(ctx: ExecutionContext) -> None:
        first, second = ctx.malloc_async(host.nbytes), ctx.malloc_async(host.nbytes)
        ctx.memcpy_htod_async(first, host)
        ctx.memcpy_dtod_async(second, first, host.nbytes)
        ctx.memcpy_dtoh_async(back, second)
        ctx.free_async(first)
        ctx.free_async(second)

    with_context(through_the_device).sync()
    assert back.tolist() == host.tolist()
    assert held.driver.pool_stats(CPU, held.driver.default_pool(CPU)).used == 0


def test_an_execution_that_fails_gives_back_what_it_allocated(held: Held) -> None:
    def fail(ctx: ExecutionContext) -> None:
        ctx.malloc_async(64)
        raise ValueError("mine")

    stream = held.device.new_stream()
    with pytest.raises(ValueError, match="mine"):
        with_context(fail).sync_on(stream)
    stream.sync()
    assert held.driver.pool_stats(CPU, held.driver.default_pool(CPU)).used == 0


@pytest.mark.parametrize("size", [-1, 1.5, "16"])
def test_what_is_no_size_is_refused(held: Held, size: Any) -> None:
    with pytest.raises(
        UsageError,
        match=rf"^malloc_async: nbytes is {size!r}, and must be a whole number of bytes(.|\n)*op: with_context",
    ):
        with_context(lambda ctx: ctx.malloc_async(size)).sync()


def test_contents_go_to_arrays_alone(held: Held) -> None:
    for target in (b"abc", [1, 2], np.ones((4, 4))[:, 1]):
        with pytest.raises(
            TensorError,
            match=r"^memcpy_dtoh_async cannot write into a .* read only, or not C-contiguous",
        ):
            with_context(
                lambda ctx, target=target: ctx.memcpy_dtoh_async(target, ctx.malloc_async(16))
            ).sync()


def test_out_of_memory_is_an_error_and_everything_still_works(held: Held) -> None:
    with pytest.raises(
        OutOfMemoryError,
        match=rf"has no memory of {2**62} bytes(.|\n)*op: with_context, created at .*{HERE}",
    ) as caught:
        with_context(lambda ctx: ctx.malloc_async(2**62)).sync()
    assert caught.value.requested == 2**62
    assert Grow(held, ones(4)).sync().tolist() == [2.0] * 4


def test_an_op_on_a_closed_stream_stays_usable(held: Held) -> None:
    stream = held.device.new_stream()
    stream.close()
    op = as_op(1)
    with pytest.raises(SchedulingError, match="the stream is closed"):
        op.sync_on(stream)
    assert op.sync() == 1


def test_an_error_keeps_nothing_for_the_collector(held: Held) -> None:
    """Results of what failed go with the error, not with the next run of the collector."""

    class Thing:
        pass

    gone: list[Any] = []

    def work(ctx: ExecutionContext) -> Thing:
        held.add(ctx, np.zeros(4, np.float32), ones(4))
        thing = Thing()
        gone.append(weakref.ref(thing))
        return thing

    held.fail = True
    gc.disable()
    try:
        for run in (lambda op: op.sync(), lambda op: op.future().result()):
            with contextlib.suppress(OSError):
                run(with_context(work))
        assert becomes(lambda: all(thing() is None for thing in gone))
        assert len(gone) == 2
    finally:
        gc.enable()


def test_host_memory_lives_until_the_copy_is_done(held: Held) -> None:
    """`enqueue_on` gives its result before the device has read the source, which nobody else holds."""
    stream = held.device.new_stream()
    z, x = np.zeros(4, np.float32), ones(4)
    with held.held():

        def copy(ctx: ExecutionContext) -> tuple[int, Any]:
            held.add(ctx, z, x)  # holds the stream up
            address = ctx.malloc_async(64)
            source = np.full(64, 7, np.uint8)
            ctx.memcpy_htod_async(address, source)
            return address, weakref.ref(source)

        address, source = with_context(copy).enqueue_on(stream)
        assert source() is not None
    stream.sync()
    back = np.zeros(64, np.uint8)
    with_context(lambda ctx: ctx.memcpy_dtoh_async(back, address)).sync_on(stream)
    assert back.tolist() == [7] * 64
    assert becomes(lambda: source() is None)


def test_only_arrays_that_can_be_written_in_place_take_copies(held: Held) -> None:
    array = np.zeros((4, 4), np.float32)
    for host in (array[:, ::2], np.broadcast_to(array, (2, 4, 4))):
        with pytest.raises(
            TensorError,
            match=r"read only, or not C-contiguous\n  fix: pass a NumPy array of its own",
        ):
            with_context(lambda ctx, host=host: ctx.memcpy_dtoh_async(host, 1)).sync()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda ctx, a: ctx.memcpy_dtod_async(a, a, -8),
            "memcpy_dtod_async: nbytes is -8, and must be a whole number of bytes",
        ),
        (
            lambda ctx, a: ctx.memcpy_dtod_async(a, a, 1.5),
            "memcpy_dtod_async: nbytes is 1.5, and must be a whole number of bytes",
        ),
        (
            lambda ctx, _: ctx.free_async(None),
            "free_async: the address is None, and must be a whole number",
        ),
        (
            lambda ctx, _: ctx.memcpy_htod_async("0x10", np.zeros(1)),
            "memcpy_htod_async: the address is '0x10'",
        ),
        (lambda ctx, _: ctx.run(3), "ctx.run takes an op, and this is a int"),
        (
            lambda ctx, _: ctx.reads(3),
            r"reads and writes take memory of tensors, and this is a int\n  fix: .*t\.storage",
        ),
    ],
)
def test_calls_of_wrong_arguments_are_refused_and_lose_nothing(
    held: Held, call: Any, words: str
) -> None:
    def run(ctx: ExecutionContext) -> None:
        call(ctx, ctx.malloc_async(8))

    with pytest.raises(UsageError, match=f"^{words}"):
        with_context(run).sync()
    assert held.driver.pool_stats(CPU, held.driver.default_pool(CPU)).used == 0


def test_a_context_is_of_no_use_once_its_execution_is_over(held: Held) -> None:
    """Nothing would wait for what is enqueued then, nor know of the memory that it uses."""
    contexts: list[ExecutionContext] = []
    with_context(contexts.append).sync()
    with contextlib.suppress(ZeroDivisionError):
        with_context(lambda ctx: contexts.append(ctx) or 1 / 0).sync()
    with held.device.new_stream() as stream:
        with_context(contexts.append).graph_on(stream)
    op, storage = as_op(1), Storage.allocate(held.driver, CPU, 64, 0)
    assert len(contexts) == 3
    for ctx in contexts:
        calls = {
            "run": lambda ctx=ctx: ctx.run(op),
            "memcpy_htod_async": lambda ctx=ctx: ctx.memcpy_htod_async(
                storage.address, np.zeros(1)
            ),
            "memcpy_dtoh_async": lambda ctx=ctx: ctx.memcpy_dtoh_async(
                np.zeros(1), storage.address
            ),
            "memcpy_dtod_async": lambda ctx=ctx: ctx.memcpy_dtod_async(
                storage.address, storage.address, 8
            ),
        }
        if not ctx.capturing:
            calls["malloc_async"] = lambda ctx=ctx: ctx.malloc_async(8)
            calls["free_async"] = lambda ctx=ctx: ctx.free_async(storage.address)
            calls["keep"] = lambda ctx=ctx: ctx.keep(storage)
            calls["reads"] = lambda ctx=ctx: ctx.reads(storage)
            calls["writes"] = lambda ctx=ctx: ctx.writes(storage)
        for name, call in calls.items():
            with pytest.raises(
                SchedulingError,
                match=rf"^ctx\.{name} was called on .* an execution that is over\n  cause: .*\n  fix: ",
            ):
                call()
    assert op.sync() == 1  # nobody has used it up


def test_one_execution_records_one_mark_and_one_that_is_waited_for_none(held: Held) -> None:
    driver = FakeDriver()
    storages = [Storage(driver, 0, 0x1000 + i, 1) for i in range(3)]
    with Stream(0, driver=driver) as stream:
        with_context(lambda ctx: [ctx.writes(s) for s in storages]).sync_on(stream)
        driver.calls.clear()
        with_context(lambda ctx: [ctx.writes(s) for s in storages for _ in range(2)]).enqueue_on(
            stream
        )
        assert driver.calls.count("record_event") == 1
        with_context(lambda ctx: [ctx.writes(s) for s in storages]).sync_on(stream)
        assert driver.calls.count("record_event") == 1


def test_a_use_is_remembered_though_the_op_failed(held: Held) -> None:
    """What was enqueued before the failure still runs: who comes next has to wait for it."""
    storage = Storage.allocate(held.driver, CPU, 64, 0)

    def fail(ctx: ExecutionContext) -> None:
        ctx.writes(storage)
        held.add(ctx, np.zeros(4, np.float32), ones(4))
        raise ValueError("mine")

    with held.held():
        with pytest.raises(ValueError, match="mine"):
            with_context(fail).sync()
        later = with_context(lambda ctx: ctx.reads(storage)).future()
        assert not later.done()
    later.result()


def test_contexts_are_streams_for_launchers_and_others(held: Held) -> None:
    with SingleStreamUse(held) as stream:
        assert with_context(lambda ctx: ctx.__cuda_stream__()).sync() == (0, stream.handle)


class SingleStreamUse:
    def __init__(self, held: Held) -> None:
        self.policy = SingleStream(held.device)
        self.use = use_policy(self.policy)

    def __enter__(self) -> Stream:
        self.use.__enter__()
        return self.policy.next_stream()

    def __exit__(self, *_: object) -> None:
        self.use.__exit__(None, None, None)
