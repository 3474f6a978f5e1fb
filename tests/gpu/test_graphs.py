"""Graphs on a GPU: the contract of the doubles, ops that are captured and replayed, what they own,
and captures of torch.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.graph_contract import CHECKS, Rig
from tests.unit.runtime.ops.graph_samples import copy
from tilec_runtime import (
    DeviceOp,
    ExecutionContext,
    Module,
    Stream,
    Tensor,
    load,
    with_context,
)
from tilec_runtime.device.driver import driver
from tilec_runtime.errors import DriverError, GraphCaptureError

pytestmark = pytest.mark.gpu

COUNT = 1 << 16


@pytest.fixture(scope="module")
def module(dist: Path) -> Module:
    """The examples, loaded anew: none of their kernels was launched."""
    return load(next(dist.glob("*.tilec")), 0)


@pytest.fixture
def stream() -> Stream:
    return Stream(0)


def tensor(value: float, count: int = COUNT) -> Tensor:
    """A tensor of one value, last used on stream 0."""
    made = Tensor.uninitialized((count,), "f32", driver=driver(), ordinal=0, stream=0)
    array = np.full(count, value, np.float32)
    driver().copy_in(0, made.ptr, array.ctypes.data, made.nbytes, 0)
    return made


def contents(found: Tensor) -> set[float]:
    back = np.empty(found.shape, np.float32)
    found.storage.sync(write=False)
    driver().copy_out(0, back.ctypes.data, found.ptr, found.nbytes, 0)
    return set(back.tolist())


def add(module: Module, z: Tensor, x: Any, y: Any) -> DeviceOp[Any]:
    """z = x + y; gives z."""
    return module.ops.vector_add(z, x, y).first()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_contract(check: Callable[[Rig], None]) -> None:
    check(Rig(driver(), 0))


def test_a_kernel_that_was_never_launched_is_captured(module: Module, stream: Stream) -> None:
    z = tensor(0)
    graph = add(module, z, tensor(2).share(), tensor(3).share()).graph_on(stream)
    output = graph.take_output()
    assert contents(output) == {0}, "a capture does nothing"
    for _ in range(3):
        graph.replay()
        assert contents(output) == {5}


def test_a_graph_owns_its_memory(module: Module, stream: Stream) -> None:
    z, x, y = tensor(0), tensor(2), tensor(3)
    graph = add(module, z, x.share(), y.share()).graph_on(stream)
    output = graph.take_output()
    del z, x, y
    gc.collect()
    others = [
        tensor(100 + number) for number in range(32)
    ]  # would be given the memory that was freed
    graph.replay()
    assert contents(output) == {5}
    for _ in range(50):
        graph.replay()
    graph.close()  # while it runs
    del graph, others
    gc.collect()
    assert contents(output) == {5}
    stream.sync()


def test_replays_are_ordered_on_all_streams(module: Module, stream: Stream, torch: Any) -> None:
    one, total, spare = tensor(1), tensor(0), tensor(0)
    op = add(module, spare, total.borrow(), one.borrow()).then(lambda found: copy(total, found))
    graph = op.graph_on(stream)
    streams = [stream, Stream(0), torch.cuda.Stream()]

    def replay() -> None:
        for number in range(60):
            graph.replay(streams[number % 3])

    threads = [threading.Thread(target=replay) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert contents(total) == {180}


def test_captures_that_fail_leave_all_streams_usable(
    module: Module, stream: Stream, torch: Any
) -> None:
    z, x, y = tensor(0), tensor(2), tensor(3)

    def allocate(ctx: ExecutionContext) -> int:
        return ctx.malloc_async(64)

    def wait(ctx: ExecutionContext) -> None:
        driver().synchronize(0, ctx.stream)

    def fail(ctx: ExecutionContext) -> None:
        module.vector_add(z, x, y, stream=ctx)
        raise ZeroDivisionError

    for work, error in (
        (allocate, GraphCaptureError),
        (wait, DriverError),
        (fail, ZeroDivisionError),
    ):
        with pytest.raises(error):
            with_context(work).graph_on(stream)
        stream.sync()
        torch.cuda.synchronize()
    graph = with_context(lambda ctx: module.vector_add(z, x, y, stream=ctx)).graph_on(stream)
    assert graph.nodes == 1
    graph.replay()
    assert contents(z) == {5}


def test_launches_of_tensors_of_tilec_in_a_capture_of_torch(module: Module, torch: Any) -> None:
    z, x, y = (
        tensor(0),
        tensor(2),
        tensor(3),
    )  # last used on stream 0, which the capture must not wait for
    with Stream(0) as busy:
        module.vector_add(x, y, y, stream=busy)  # and x on one more
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            current = torch.cuda.current_stream()
            for _ in range(3):
                module.vector_add(z, x, y, stream=current)
            with pytest.raises(GraphCaptureError):
                Tensor.uninitialized(
                    (4,), "f32", driver=driver(), ordinal=0, stream=current.cuda_stream
                )
        captured.replay()
        torch.cuda.synchronize()
        assert contents(z) == {9}


@pytest.mark.parametrize(
    "used", ["on one stream", "on the legacy default stream", "on two streams"]
)
def test_the_collector_frees_in_a_capture_of_torch(module: Module, torch: Any, used: str) -> None:
    """In the mode that torch captures in, a free on any stream would break the capture."""
    z, y = tensor(0), tensor(3)
    a, b = torch.ones(COUNT, device="cuda"), torch.ones(COUNT, device="cuda")
    with Stream(0) as busy, Stream(0) as other:
        dropped = Tensor.uninitialized(
            (COUNT,),
            "f32",
            driver=driver(),
            ordinal=0,
            stream=0 if "legacy" in used else busy.handle,
        )
        if "two" in used:
            module.vector_add(z, dropped, y, stream=other)
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            torch.add(a, b, out=b)
            del dropped
            gc.collect()
        captured.replay()
        torch.cuda.synchronize()
        assert (b == 2).all()


def test_completion_threads_break_no_capture_of_torch(module: Module, torch: Any) -> None:
    """It asks for events on its thread, which a capture in the global mode forbids to all threads."""
    with Stream(0) as busy:
        z, x, y = tensor(0, 1 << 24), tensor(2, 1 << 24).share(), tensor(3, 1 << 24).share()
        op = add(module, z, x, y)
        for _ in range(400):
            op = op.then(lambda found: add(module, found, x, y))
        a, b = torch.ones(COUNT, device="cuda"), torch.ones(COUNT, device="cuda")
        torch.cuda.synchronize()
        future = op.schedule(OnStream(busy))
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            for _ in range(200):
                torch.add(a, b, out=b)
                time.sleep(2e-5)
        assert contents(future.result()) == {5}
        captured.replay()
        torch.cuda.synchronize()
        assert (b == 201).all()


class OnStream:
    """A policy of one stream."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def next_stream(self) -> Stream:
        return self.stream
