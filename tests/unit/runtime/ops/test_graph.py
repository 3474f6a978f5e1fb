"""Graphs of ops on the cpu device: what is captured and when it runs, what a graph owns, its
output, its end, and what is refused.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.ops.graph_samples import COUNT, Cpu, contents, copy
from tests.waiting import at_once, becomes
from tilec_runtime import (
    CudaGraph,
    DeviceOp,
    Event,
    ExecutionContext,
    Tensor,
    as_op,
    use_device,
    with_context,
    zip_ops,
)
from tilec_runtime.device.recording import RECORDINGS
from tilec_runtime.errors import (
    BorrowError,
    GraphCaptureError,
    GraphError,
    NestedExecutionError,
    SchedulingError,
    UsedOpError,
)


@pytest.fixture
def cpu() -> Cpu:
    return Cpu()


# What runs when


def test_functions_run_once_and_the_work_at_each_replay(cpu: Cpu) -> None:
    z, x, y = cpu.tensor(0), cpu.tensor(2), cpu.tensor(3)
    calls: list[str] = []

    def again(found: Tensor) -> Any:
        calls.append("then")
        return cpu.add(y_out, found, np.full(COUNT, 5, np.float32))

    y_out = cpu.tensor(0)
    graph = cpu.add(z, x.borrow(), y).then(again).graph_on(cpu.stream)
    assert (calls, cpu.runs, graph.nodes) == (["then"], 0, 2)
    output = graph.take_output()
    assert contents(output) == {0}
    for number in range(1, 4):
        graph.replay()
        assert contents(output) == {10}
        assert (calls, cpu.runs) == (["then"], 2 * number)


# What it owns


def test_memory_and_arrays_stay_until_the_last_replay_is_done(cpu: Cpu) -> None:
    before, array = cpu.used, np.full(COUNT, 4, np.float32)
    gone = weakref.ref(array)
    with cpu.stream:
        graph = cpu.add(cpu.tensor(0), array, cpu.tensor(1)).graph_on(cpu.stream)
        del array
        cpu.gate.clear()
        graph.replay()
        graph.close()  # neither this nor what follows waits
        del graph
        gc.collect()
        assert gone() is not None
        assert cpu.used > before
        cpu.gate.set()
        cpu.stream.sync()
    assert becomes(lambda: gone() is None and cpu.used == before)


def test_launchers_that_are_called_in_a_capture_are_owned_too(cpu: Cpu) -> None:
    z, w = cpu.tensor(0), cpu.tensor(0)
    inputs: list[Any] = [cpu.tensor(2), np.full(COUNT, 3, np.float32)]

    def work(ctx: ExecutionContext) -> None:
        cpu.module.add(z, *inputs, stream=ctx)
        cpu.module.add(w, z, inputs[1], stream=ctx.stream)

    graph = with_context(work).graph_on(cpu.stream)
    kept = weakref.ref(inputs[0].storage)
    inputs.clear()
    gc.collect()
    assert kept() is not None
    graph.replay()
    assert (contents(z), contents(w)) == ({5}, {8})
    graph.close()
    del graph
    assert becomes(lambda: kept() is None)


def test_host_memory_of_copies_stays(cpu: Cpu) -> None:
    x = cpu.tensor(0)

    def work(ctx: ExecutionContext) -> None:
        ctx.writes(x.storage)
        ctx.memcpy_htod_async(x.ptr, np.full(COUNT, 6, np.float32))

    graph = with_context(work).graph_on(cpu.stream)
    gc.collect()
    graph.replay()
    assert contents(x) == {6}


def test_the_output_has_one_owner(cpu: Cpu) -> None:
    graph = cpu.add(cpu.tensor(0), cpu.tensor(1), cpu.tensor(1)).graph_on(cpu.stream)
    output = graph.take_output()
    with pytest.raises(GraphError) as caught:
        graph.take_output()
    assert caught.value.what.startswith(
        f"the output of <CudaGraph of 1 nodes, captured at {__file__}:"
    )
    assert f"was taken before, at {__file__}:" in caught.value.what
    graph.replay()
    assert contents(output) == {2}


def test_borrows_keep_replays_away_that_write(cpu: Cpu) -> None:
    z, x, y = cpu.tensor(0), cpu.tensor(1), cpu.tensor(1)
    graph = cpu.add(z, x.borrow(), y).graph_on(cpu.stream)
    output = graph.take_output()
    with output.borrow(), pytest.raises(BorrowError) as caught:
        graph.replay()
    assert caught.value.what.startswith(
        "the tensor cannot be written by the replay of <CudaGraph of 1 nodes, captured at"
    )
    assert f"the borrow ({__file__}:" in caught.value.what
    with x.borrow():
        graph.replay()
    with x.borrow_mut(), pytest.raises(BorrowError, match="cannot be read by the replay"):
        graph.launch().sync_on(cpu.stream)
    graph.replay()
    assert contents(output) == {2}


# Captures that fail


def test_memory_is_neither_taken_nor_freed_in_a_capture(cpu: Cpu) -> None:
    z, x, y = cpu.tensor(0), cpu.tensor(1), cpu.tensor(1)
    for use, what in (
        (lambda ctx: ctx.malloc_async(16), "16 bytes cannot be allocated"),
        (
            lambda ctx: Tensor.uninitialized(
                (4,), "f32", driver=ctx.driver, ordinal=ctx.device, stream=ctx.stream
            ),
            "16 bytes cannot be allocated",
        ),
        (lambda ctx: ctx.free_async(16), "cannot be freed while a graph is captured"),
    ):
        op = cpu.add(z, x.borrow(), y.borrow()).then(lambda _, use=use: with_context(use))  # type: ignore[misc]
        with pytest.raises(GraphCaptureError) as caught:
            op.graph_on(cpu.stream)
        assert what in caught.value.what
        assert caught.value.fix
        assert caught.value.op.startswith(f"with_context, created at {__file__}:")
    cpu.add(z, x, y).sync_on(cpu.stream)  # what had moved in is back, and the stream works
    assert cpu.runs == 1


@pytest.mark.parametrize("error", [ValueError("no such luck"), KeyboardInterrupt()])
def test_a_capture_that_fails_leaves_everything_as_it_was(cpu: Cpu, error: BaseException) -> None:
    def fail(_: Any) -> Any:
        raise error

    z, x, y = cpu.tensor(0), cpu.tensor(1), cpu.tensor(1)
    for _ in range(2):
        with pytest.raises(type(error)):
            cpu.add(z, x.borrow(), y.borrow()).then(fail).graph_on(cpu.stream)
    graph = cpu.add(z, x.borrow(), y.borrow()).graph_on(cpu.stream)
    assert (graph.nodes, cpu.runs) == (1, 0), "nothing is left of what failed"


def test_events_are_refused_in_a_capture(cpu: Cpu) -> None:
    with Event("cpu", driver=cpu.driver) as event:
        with pytest.raises(
            GraphCaptureError, match="an event cannot be recorded while an op is captured"
        ):
            with_context(event.record).graph_on(cpu.stream)
        event.record(cpu.stream)


def test_nested_captures_are_refused(cpu: Cpu) -> None:
    with use_device(cpu.device):
        graph = as_op(1).graph()
        for call in (
            lambda _: as_op(1).graph(),
            lambda _: as_op(1).sync(),
            lambda _: graph.update(as_op(1)),
        ):
            for run in (DeviceOp.graph, DeviceOp.sync):
                with pytest.raises(NestedExecutionError):
                    run(as_op(0).map(call))
        for op in (graph.launch(), with_context(graph.replay)):
            with pytest.raises(
                GraphCaptureError, match="cannot be replayed on a stream that is captured"
            ):
                op.graph()
        with_context(graph.replay).sync()


def test_a_captured_op_is_used_up(cpu: Cpu) -> None:
    op = as_op(1)
    assert op.graph_on(cpu.stream).take_output() == 1
    for use in (op.sync_on, op.graph_on):
        with pytest.raises(UsedOpError, match="captured in a graph"):
            use(cpu.stream)


# Shared ops


def test_a_shared_op_runs_once_in_a_capture_and_has_no_result_outside(cpu: Cpu) -> None:
    shared = cpu.add(cpu.tensor(0), cpu.tensor(1), cpu.tensor(1)).shared()
    outs = [cpu.tensor(0), cpu.tensor(0)]
    graph = zip_ops(*(cpu.add(out, shared, np.ones(COUNT, np.float32)) for out in outs)).graph_on(
        cpu.stream
    )
    assert graph.nodes == 3
    graph.replay()
    assert [contents(out) for out in graph.take_output()] == [{3}, {3}]
    for use in (lambda: shared.sync_on(cpu.stream), lambda: shared.graph_on(cpu.stream)):
        with pytest.raises(GraphCaptureError) as caught:
            use()
        assert (
            caught.value.what
            == "the result of a shared op is needed outside of the graph that it was captured in"
        )


# The end, and another beginning


def test_a_closed_graph_does_nothing_more(cpu: Cpu) -> None:
    with as_op(1).graph_on(cpu.stream) as graph:
        launch = graph.launch()
        assert "closed" not in repr(graph)
    assert graph.closed
    for call in (
        graph.replay,
        graph.take_output,
        lambda: launch.sync_on(cpu.stream),
        lambda: graph.update(as_op(1)),
    ):
        with pytest.raises(GraphError) as caught:
            call()
        assert "captured at" in caught.value.what
        assert caught.value.fix == "capture a new one"
    graph.close()
    assert repr(graph).endswith(", closed>")


def test_replays_of_several_threads_take_turns(cpu: Cpu) -> None:
    one, total, spare = cpu.tensor(1), cpu.tensor(0), cpu.tensor(0)
    op = cpu.add(spare, total.borrow(), one).then(lambda found: copy(total, found))
    graph = op.graph_on(cpu.stream)

    def replay() -> None:
        stream = cpu.device.new_stream()
        for _ in range(20):
            graph.replay(stream)
            graph.launch().sync_on(stream)

    at_once(*[replay] * 4)
    assert contents(total) == {160}


def test_launches_of_another_thread_are_no_part_of_a_capture(cpu: Cpu) -> None:
    z, x, other, one = cpu.tensor(0), cpu.tensor(1), cpu.tensor(0), cpu.tensor(1)
    found: list[Any] = []

    def launch() -> None:
        stream = cpu.device.new_stream()
        for alpha in (1.0, 2.0):  # the first one loads the kernel
            cpu.module.add(other, one, one, alpha, stream=stream)
            found.append(contents(other))

    with CudaGraph.scope(cpu.stream) as scope:
        at_once(launch)
        scope.record(cpu.module.ops.add(z, x.borrow(), x.borrow()))
    assert (found, contents(z), scope.graph.nodes) == ([{2}, {3}], {0}, 1)
    scope.graph.replay()
    assert contents(z) == {2}


# Scopes, and streams that take no work


def zeros() -> np.ndarray:
    return np.zeros(COUNT, np.float32)


def test_streams_that_take_no_work_are_refused_before_anything_is_captured(cpu: Cpu) -> None:
    """And not at the first replay, somewhere else."""
    closed = cpu.device.new_stream()
    closed.close()
    with use_device(cpu.device):
        for stream, words in (
            (closed, "^the stream is closed"),
            (12345, "^stream 0x3039 is no stream of the cpu device"),
        ):
            x = cpu.tensor(2)
            op = copy(x, cpu.tensor(0))
            with pytest.raises(SchedulingError, match=words):
                op.graph_on(stream)
            with pytest.raises(SchedulingError, match=words), CudaGraph.scope(stream):
                pass
            op.sync_on(cpu.stream)  # nobody has used it up
    assert not RECORDINGS


def test_a_record_that_fails_ends_the_scope(cpu: Cpu) -> None:
    z, x = cpu.tensor(0), cpu.tensor(1)
    scope = CudaGraph.scope(cpu.stream)
    s = scope.__enter__()
    out = s.record(cpu.add(z, x.borrow(), zeros()))
    with pytest.raises(GraphCaptureError, match="64 bytes cannot be allocated"):
        s.record(with_context(lambda ctx: ctx.malloc_async(64)))
    for call in (lambda: s.record(as_op(1)), lambda: scope.__exit__(None, None, None)):
        with pytest.raises(
            GraphCaptureError,
            match=r"^the capture was given up: GraphCaptureError: 64 bytes cannot",
        ):
            call()
    with pytest.raises(GraphError, match="there is no graph"):
        _ = scope.graph
    cpu.add(out, x, zeros()).sync_on(cpu.stream)  # results of earlier records are the caller's
    assert cpu.runs == 1


def test_records_belong_into_the_block(cpu: Cpu) -> None:
    scope = CudaGraph.scope(cpu.stream)
    with pytest.raises(GraphError, match="outside of the scope's block"):
        scope.record(as_op(1))
    with scope as s, pytest.raises(GraphError, match="there is no graph"):
        _ = s.graph
    with pytest.raises(GraphError, match="outside of the scope's block"):
        scope.record(as_op(1))
    with pytest.raises(GraphError, match="a scope is used once"), scope:
        pass


def test_a_scope_that_nobody_ends_is_given_up(cpu: Cpu) -> None:
    scope: Any = CudaGraph.scope(cpu.stream)
    scope.__enter__().record(cpu.add(cpu.tensor(0), cpu.tensor(1), zeros()))
    assert RECORDINGS
    del scope
    gc.collect()
    assert not RECORDINGS
    assert as_op(1).graph_on(cpu.stream).nodes == 0
