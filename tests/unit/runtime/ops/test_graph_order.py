"""What a GPU's driver is asked for a graph: no waits in the capture, events between replays and
other uses, and captures of others.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime_samples import steps
from tests.unit.runtime.ops.graph_samples import COUNT, Gpu
from tilec.testing.fake_driver import H200, FakeDriver
from tilec_runtime import (
    CudaGraph,
    Stream,
    Tensor,
    as_op,
    with_context,
)
from tilec_runtime.errors import DriverError, GraphCaptureError, GraphError
from tilec_runtime.ops.context import ExecutionContext


@pytest.fixture
def gpu() -> Gpu:
    return Gpu()


def test_a_capture_waits_for_nothing_and_replays_do(gpu: Gpu) -> None:
    z, x, y = gpu.tensor(), gpu.tensor(), gpu.tensor()  # last used on stream 5
    steps(gpu.driver)
    graph: CudaGraph[Any] = gpu.module.ops.add(z, x.share(), y.share()).first().graph_on(gpu.stream)
    assert steps(gpu.driver) == [], "not even an event"
    s, t = gpu.stream.handle, gpu.other.handle
    graph.replay()
    assert steps(gpu.driver) == [("record", 5), *[("wait", s)] * 3, ("launch", s)]
    graph.replay()
    assert steps(gpu.driver) == [("launch", s)], "in order already"
    graph.replay(t)  # a handle is of the graph's device
    found = steps(gpu.driver)
    assert found[-1] == ("launch", t)
    assert set(found[:-1]) == {("record", s), ("wait", t)}, "the marks of stream 5 are there"


def test_other_devices_are_refused() -> None:
    driver = FakeDriver((H200, H200))
    stream = Stream(0, driver=driver)
    graph = as_op(1).graph_on(stream)
    for call in (graph.replay, lambda where: graph.launch().sync_on(where)):
        with pytest.raises(
            GraphError, match="was captured on device 0, and the stream is on device 1"
        ) as caught:
            call(Stream(1, driver=driver))
        assert caught.value.fix == "pass a stream of that device"
    graph.replay(stream)
    assert driver.calls.count("launch_graph") == 1


@pytest.mark.parametrize("call", ["begin_capture", "end_capture", "instantiate_graph"])
def test_a_driver_that_fails_leaves_the_next_capture_clean(gpu: Gpu, call: str) -> None:
    z, x, y = gpu.tensor(), gpu.tensor(), gpu.tensor()
    gpu.driver.fail[call] = "CUDA_ERROR_INVALID_VALUE"
    with pytest.raises(DriverError, match=f"{call} failed: CUDA_ERROR_INVALID_VALUE"):
        gpu.module.ops.add(z, x.borrow(), y.borrow()).graph_on(gpu.stream)
    gpu.driver.fail.clear()
    gpu.driver.calls.clear()
    graph = gpu.module.ops.add(z, x.borrow(), y.borrow()).graph_on(
        gpu.stream
    )  # what had moved in is back
    assert graph.nodes == 1
    graph.replay()


# Captures of other libraries


def test_a_launch_in_a_capture_of_others_waits_on_the_host(gpu: Gpu) -> None:
    z, x, y = gpu.tensor(), gpu.tensor(), gpu.tensor()
    steps(gpu.driver)
    gpu.driver.begin_capture(0, 9)
    gpu.driver.calls.clear()
    for _ in range(2):
        gpu.module.add(z, x, y, stream=9)
    assert gpu.driver.calls.count("synchronize_event") == 2, "the host knows then"
    assert {step for step in steps(gpu.driver) if step[0] != "record"} == set(), (
        "the captured stream waits for nothing"
    )
    graph = gpu.driver.end_capture(0, 9)
    assert gpu.driver.graph_nodes(graph) == 2
    gpu.driver.calls.clear()
    gpu.module.add(z, x, y, stream=5)
    assert gpu.driver.calls == [], "nothing has run: stream 5 is in order still"


def test_memory_ops_and_replays_are_refused_in_a_capture_of_others(gpu: Gpu) -> None:
    stream = Stream.borrow_raw(9, 0, driver=gpu.driver)
    graph, op = as_op(1).graph_on(gpu.stream), as_op(1)
    gpu.driver.begin_capture(0, 9)
    for use, message in (
        (
            lambda: Tensor.uninitialized(COUNT, "f32", driver=gpu.driver, ordinal=0, stream=9),
            "256 bytes cannot be allocated on a stream that is captured",
        ),
        (
            lambda: op.sync_on(stream),
            "cannot be executed on a stream that another library captures",
        ),
        (lambda: op.enqueue_on(stream), "cannot be executed on a stream"),
        (lambda: graph.replay(stream), "cannot be replayed on a stream that is captured"),
    ):
        with pytest.raises(GraphCaptureError, match=message):
            use()
    assert gpu.driver.graph_nodes(gpu.driver.end_capture(0, 9)) == 0
    assert op.sync_on(stream) == 1


def test_captures_leave_no_stream(gpu: Gpu) -> None:
    def fail(_: ExecutionContext) -> None:
        raise ValueError("no such luck")

    with gpu.stream:
        as_op(1).graph_on(gpu.stream)
        with pytest.raises(ValueError, match="no such luck"):
            with_context(fail).graph_on(gpu.stream)
    assert (
        gpu.driver.calls.count("destroy_stream") == gpu.driver.calls.count("create_stream") - 1
    ), "but for the device's other one"
