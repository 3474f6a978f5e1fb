"""Ops that are captured one after another: streams that take no work, and scopes that fail."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.ops.graph_samples import COUNT, Cpu, copy
from tilec_runtime import CudaGraph, as_op, use_device, with_context
from tilec_runtime.device.recording import RECORDINGS
from tilec_runtime.errors import (
    GraphCaptureError,
    GraphError,
    SchedulingError,
)


@pytest.fixture
def cpu() -> Cpu:
    return Cpu()


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


def test_a_block_that_fails_makes_no_graph(cpu: Cpu) -> None:
    scope = CudaGraph.scope(cpu.stream)
    with pytest.raises(ZeroDivisionError), scope as s:  # noqa: PT012 - the block is what is tested
        s.record(cpu.add(cpu.tensor(0), cpu.tensor(1), zeros()))
        _ = 1 / 0
    with pytest.raises(GraphError):
        _ = scope.graph
    with pytest.raises(GraphCaptureError, match="given up: ZeroDivisionError"):
        scope.record(as_op(1))
    assert not RECORDINGS


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
