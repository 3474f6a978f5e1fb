"""DeviceOp: lazy, single use, run on the stream that is picked, with errors that say where it was made."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ones
from tests.unit.runtime.ops.device_samples import CPU, Held
from tilec.errors import DriverError, NestedExecutionError, OutOfMemoryError, SchedulingError, TilecError, UsageError, UsedOpError
from tilec.runtime import Stream
from tilec.runtime.ops.combinators import as_op, empty, value, with_context, zip_ops
from tilec.runtime.ops.context import ExecutionContext
from tilec.runtime.ops.op import DeviceOp
from tilec.runtime.ops.policy import SingleStream, use_device, use_policy
from tilec.runtime.ops.watcher import WATCHER
from tilec.runtime.tensors.storage import Storage
from tilec.testing.fake_driver import FakeDriver

HERE = "test_ops.py"


@pytest.fixture
def held() -> Iterator[Held]:
    found = Held()
    with use_device(found.device):
        yield found


@dataclasses.dataclass
class Grow(DeviceOp[np.ndarray[Any, Any]]):
    """An op of a user's own."""

    held: Held
    x: np.ndarray[Any, Any]

    def _execute(self, ctx: ExecutionContext) -> np.ndarray[Any, Any]:
        return self.held.add(ctx, np.zeros_like(self.x), self.x)


# --- values and combinators ------------------------------------------------------------------------------------------------------


def test_combinators_give_what_they_say(held: Held) -> None:
    seen: list[int] = []
    assert value(3).sync() == 3
    assert empty().sync() is None
    assert value(3).map(lambda x: x + 1).sync() == 4
    assert value(3).then(lambda x: value(x * 2)).sync() == 6
    assert value(3).inspect(seen.append).sync() == 3
    assert zip_ops(value(1), value("a"), empty()).sync() == (1, "a", None)
    assert zip_ops(value(1), value("a")).first().sync() == 1
    assert zip_ops(value(1), value("a")).last().sync() == "a"
    assert with_context(lambda ctx: ctx.device).sync() == CPU
    assert with_context(lambda ctx: value(ctx.stream)).map(type).sync() is int
    assert as_op(7).sync() == 7
    assert value(1).boxed().sync() == 1
    assert seen == [3]


def test_building_an_op_does_nothing(held: Held) -> None:
    ran: list[str] = []
    op = with_context(lambda ctx: ran.append("ran")).then(lambda _: empty())
    assert ran == []
    op.sync()
    assert ran == ["ran"]


def test_an_op_of_ones_own(held: Held) -> None:
    assert Grow(held, ones(4)).sync().tolist() == [2.0] * 4
    chained = Grow(held, ones(4)).then(lambda z: Grow(held, z))
    assert chained.sync().tolist() == [3.0] * 4


def test_an_op_that_is_a_frozen_dataclass_with_slots() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Frozen(DeviceOp[int]):
        number: int

        def _execute(self, ctx: ExecutionContext) -> int:
            return self.number

    op = Frozen(5)
    with use_device("cpu"):
        assert op.sync() == 5
        with pytest.raises(UsedOpError):
            op.sync()


def test_then_stays_on_one_stream(held: Held) -> None:
    streams: list[int] = []

    def note(ctx: ExecutionContext) -> None:
        streams.append(ctx.stream)

    with_context(note).then(lambda _: with_context(note)).then(lambda _: zip_ops(with_context(note), with_context(note))).sync()
    assert len(streams) == 4
    assert len(set(streams)) == 1


def test_then_sees_what_the_op_before_wrote(held: Held) -> None:
    """The second kernel is enqueued while the first waits."""
    with held.held():
        x = ones(4)
        future = Grow(held, x).then(lambda z: Grow(held, z)).then(lambda z: Grow(held, z)).future()
        assert not future.done()
    assert future.result().tolist() == [4.0] * 4


def test_a_chain_of_thousands_is_not_deep(held: Held) -> None:
    op = value(0)
    for _ in range(5000):
        op = op.then(lambda x: value(x + 1))
    assert op.sync() == 5000


def test_then_has_to_give_an_op(held: Held) -> None:
    with pytest.raises(UsageError, match=r"the function of `then` gave a int, and not a DeviceOp\n  fix: return an op, value\(x\)"):
        value(1).then(lambda x: x).sync()


def test_first_needs_a_tuple(held: Held) -> None:
    with pytest.raises(UsageError, match="`first` needs a tuple with elements, and the op gave a int"):
        value(1).first().sync()
    with pytest.raises(UsageError, match="`last` needs a tuple with elements, and the op gave a tuple"):
        value(()).last().sync()


def test_zip_takes_ops_only() -> None:
    with pytest.raises(UsageError, match="zip_ops takes ops, and one of these is a int"):
        zip_ops(value(1), 2)


# --- single use ------------------------------------------------------------------------------------------------------------------


def test_an_op_runs_once(held: Held) -> None:
    op = value(1)
    op.sync()
    with pytest.raises(
        UsedOpError, match=rf"<DeviceOp value, created at .*{HERE}:\d+> was used before: executed at .*{HERE}:\d+"
    ) as caught:
        op.sync()
    assert "share it: op.shared()" in str(caught.value)


def test_an_op_moves_into_what_is_made_of_it(held: Held) -> None:
    op = value(1)
    zipped = zip_ops(op, value(2))
    for use in (op.sync, op.future, lambda: op.map(str), lambda: zip_ops(op)):
        with pytest.raises(UsedOpError, match="moved into zip_ops"):
            use()
    assert zipped.sync() == (1, 2)


def test_an_op_that_is_refused_leaves_the_others_usable(held: Held) -> None:
    used, fresh = value(1), value(2)
    used.sync()
    with pytest.raises(UsedOpError):
        zip_ops(fresh, used)
    with pytest.raises(UsedOpError):
        zip_ops(fresh, fresh)
    assert fresh.sync() == 2


def test_of_many_threads_one_runs_an_op(held: Held) -> None:
    counted: list[int] = []
    op = with_context(lambda ctx: counted.append(1))
    refused: list[BaseException] = []
    start = threading.Barrier(8)

    def use() -> None:
        start.wait()
        try:
            with use_device(held.device):
                op.sync()
        except UsedOpError as error:
            refused.append(error)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(counted), len(refused)) == (1, 7)


def test_an_executed_op_holds_nothing(held: Held) -> None:
    """Who keeps the op, or the functions of its chain, does not keep the tensors."""

    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    first = value(thing)
    second = first.map(lambda x, thing=thing: (x, thing))
    op = second.then(lambda pair: value(len(pair)))
    del thing
    assert op.sync() == 2
    assert gone() is None
    assert (first.name, second.name) == ("value", "value.map.then")


def test_reprs_say_what_and_where() -> None:
    op = value(1).map(str)
    assert repr(op).startswith("<DeviceOp value.map, created at ")
    assert f"{HERE}:" in repr(op)
    assert Grow(None, None).label.startswith("Grow, created at ")
    for _ in range(10):
        op = op.map(str)
    assert op.name == "value.map … map (11 steps)"
    assert repr(with_context(lambda ctx: 1)).startswith("<DeviceOp with_context, ")


# --- nested execution and the guard ---------------------------------------------------------------------------------------------


def test_nested_execution_is_refused_and_names_both(held: Held) -> None:
    inner = value(1)

    def nested(_: object) -> DeviceOp[int]:
        inner.sync()
        return value(2)

    with pytest.raises(
        NestedExecutionError, match=r"<DeviceOp value, .* cannot be executed while this thread executes <DeviceOp value.then,"
    ) as e:
        value(0).then(nested).sync()
    assert isinstance(e.value, SchedulingError)
    assert "ctx.run(op)" in str(e.value)
    assert inner.sync() == 1  # it was refused, not used up


@pytest.mark.parametrize("way", ["sync", "sync_on", "future", "enqueue_on", "schedule"])
def test_every_way_to_run_refuses_to_nest(held: Held, way: str) -> None:
    stream = held.device.new_stream()
    ways = {
        "sync": lambda op: op.sync(),
        "sync_on": lambda op: op.sync_on(stream),
        "future": lambda op: op.future(),
        "enqueue_on": lambda op: op.enqueue_on(stream),
        "schedule": lambda op: op.schedule(SingleStream(held.device)),
    }
    with pytest.raises(NestedExecutionError):
        value(0).map(lambda _: ways[way](value(1))).sync()


def test_another_thread_may_run_ops_meanwhile(held: Held) -> None:
    found: list[int] = []

    def other() -> None:
        with use_device(held.device):
            found.append(value(5).sync())

    def outer(_: object) -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    value(0).map(outer).sync()
    assert found == [5]


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3), DriverError("refused"), GeneratorExit()])
def test_the_guard_is_released_on_every_exception(held: Held, error: BaseException) -> None:
    """A function that raises, whatever it raises, leaves the thread able to run the next op."""

    def fail(_: object) -> None:
        raise error

    stream = held.device.new_stream()
    for run in (lambda op: op.sync(), lambda op: op.sync_on(stream), lambda op: op.enqueue_on(stream)):
        with pytest.raises(type(error)):
            run(value(0).map(fail))
        assert value(1).sync() == 1


def test_there_is_no_unchecked_then() -> None:
    """The way to nest that messages recommend exists, and no second `then` only pretends to be another."""
    assert not hasattr(value(1), "then_unchecked")
    with use_device("cpu"):
        assert with_context(lambda ctx: ctx.run(value(4))).sync() == 4


# --- errors ----------------------------------------------------------------------------------------------------------------------


def test_an_error_of_the_device_says_where_its_op_was_made(held: Held) -> None:
    held.fail = True
    with pytest.raises(OSError, match="the kernel failed") as caught:
        Grow(held, ones(4)).sync()
    assert any("Grow, created at" in note and HERE in note for note in getattr(caught.value, "__notes__", ["Grow, created at " + HERE]))
    held.fail = False
    assert Grow(held, ones(4)).sync().tolist() == [2.0] * 4


def test_an_error_while_enqueuing_names_the_innermost_op(held: Held) -> None:
    def refuse(ctx: ExecutionContext) -> None:
        raise DriverError("the launch failed")

    with pytest.raises(TilecError, match=rf"the launch failed\n  op: with_context, created at .*{HERE}:\d+$"):
        zip_ops(value(1), with_context(refuse)).map(str).sync()


def test_an_error_in_a_step_names_the_step(held: Held) -> None:
    def refuse(_: object) -> DeviceOp[int]:
        raise DriverError("no")

    with pytest.raises(DriverError, match=rf"op: then, created at .*{HERE}:\d+$"):
        value(1).map(str).then(refuse).sync()


def test_a_stream_is_not_failed_by_somebody_elses_error(held: Held) -> None:
    """Two threads share a stream: the one whose kernel failed is told, also where the other one waits first."""
    held.fail = True
    with held.held():
        stream = held.device.new_stream()
        failing = Grow(held, ones(4)).schedule(_On(stream))
        good = value(3).schedule(_On(stream))
    with pytest.raises(OSError, match="the kernel failed"):
        failing.result()
    held.fail = False
    assert Grow(held, ones(4)).sync_on(stream).tolist() == [2.0] * 4
    assert good.done()


class _On:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def next_stream(self) -> Stream:
        return self.stream


def test_work_of_an_op_that_failed_fails_no_other(held: Held) -> None:
    """The op raised after it had enqueued a kernel, which fails too: nobody else on that stream is told."""
    stream = held.device.new_stream()

    def fail(ctx: ExecutionContext) -> None:
        held.add(ctx, np.zeros(4, np.float32), ones(4))
        raise ValueError("mine")

    held.fail = True
    with pytest.raises(ValueError, match="mine"):
        with_context(fail).sync_on(stream)
    assert _becomes(lambda: held.runs == 1)
    assert WATCHER.drain(5)
    held.fail = False
    assert Grow(held, ones(4)).sync_on(stream).tolist() == [2.0] * 4


# --- the context -----------------------------------------------------------------------------------------------------------------


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


def test_memory_can_be_freed_by_a_later_execution(held: Held) -> None:
    address = with_context(lambda ctx: ctx.malloc_async(64)).sync()
    assert held.driver.pool_stats(CPU, held.driver.default_pool(CPU)).used == 64
    with_context(lambda ctx: ctx.free_async(address)).sync()
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


def test_out_of_memory_is_an_error_and_everything_still_works(held: Held) -> None:
    with pytest.raises(OutOfMemoryError, match=rf"has no memory of {2**62} bytes(.|\n)*op: with_context, created at .*{HERE}") as caught:
        with_context(lambda ctx: ctx.malloc_async(2**62)).sync()
    assert caught.value.requested == 2**62
    assert Grow(held, ones(4)).sync().tolist() == [2.0] * 4


def test_an_op_on_a_closed_stream_stays_usable(held: Held) -> None:
    stream = held.device.new_stream()
    stream.close()
    op = value(1)
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
        assert _becomes(lambda: all(thing() is None for thing in gone))
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
    assert _becomes(lambda: source() is None)


def test_only_arrays_that_can_be_written_in_place_take_copies(held: Held) -> None:
    array = np.zeros((4, 4), np.float32)
    for host in (array[:, ::2], np.broadcast_to(array, (2, 4, 4))):
        with pytest.raises(ValueError, match="C-contiguous NumPy array that is not read only"):
            with_context(lambda ctx, host=host: ctx.memcpy_dtoh_async(host, 1)).sync()


def test_uses_on_different_streams_are_ordered(held: Held) -> None:
    """Read after write, write after read: the second execution waits for the first, on whatever stream it is."""
    storage = Storage.allocate(held.driver, CPU, 64, 0)
    order: list[str] = []

    def use(name: str, *, write: bool) -> DeviceOp[None]:
        def body(ctx: ExecutionContext) -> None:
            (ctx.writes if write else ctx.reads)(storage)
            if name == "first":
                held.add(ctx, np.zeros(4, np.float32), ones(4))
            held.driver._queue(ctx.stream).put(lambda _: order.append(name))

        return with_context(body)

    with held.held():
        futures = [use("first", write=True).future(), use("second", write=False).future(), use("third", write=True).future()]
        assert not any(future.done() for future in futures)
    for future in futures:
        future.result()
    assert order == ["first", "second", "third"]


def test_independent_uses_overlap(held: Held) -> None:
    one, other = (Storage.allocate(held.driver, CPU, 64, 0) for _ in range(2))

    def slow(ctx: ExecutionContext) -> None:
        ctx.writes(one)
        held.add(ctx, np.zeros(4, np.float32), ones(4))

    with held.held():
        first = with_context(slow).future()
        with_context(lambda ctx: ctx.writes(other)).sync()  # would wait for ever behind the first
        assert not first.done()
    first.result()


def test_one_execution_records_one_mark(held: Held) -> None:
    driver = FakeDriver()
    storages = [Storage(driver, 0, 0x1000 + i, 1) for i in range(3)]
    with Stream(0, driver=driver) as stream:
        with_context(lambda ctx: [ctx.writes(s) for s in storages]).sync_on(stream)
        driver.calls.clear()
        with_context(lambda ctx: [ctx.writes(s) for s in storages for _ in range(2)]).sync_on(stream)
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


def _becomes(condition: Any) -> bool:
    import time

    end = time.monotonic() + 5
    while not condition() and time.monotonic() < end:
        time.sleep(0.002)
    return bool(condition())
