"""Random programs of graphs, ops and launches on streams that are held up: the results are those of
one work after another.
"""

from __future__ import annotations

import random
import time
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from tests.amount import examples
from tests.cpu_samples import ADD, PythonKernels, add
from tests.runtime_samples import bundle_of
from tests.unit.runtime.ops.graph_samples import contents, copy
from tilec_runtime import CudaGraph, Device, DeviceOp, Stream, Tensor, load
from tilec_runtime.cpu.launch import CpuOptions

COUNT, TENSORS, STREAMS, GRAPHS = 16, 4, 3, 3
PLACES = st.tuples(*[st.integers(0, TENSORS - 1)] * 3)
# (target, two sources) of one work; a target that is a source too makes it a copy of the first
# source.
WORKS = st.lists(PLACES, min_size=1, max_size=4)
STEPS = st.one_of(
    st.tuples(st.just("launch"), PLACES, st.integers(0, STREAMS - 1)),
    st.tuples(st.just("op"), PLACES, st.integers(0, STREAMS - 1)),
    st.tuples(st.just("replay"), st.integers(0, GRAPHS - 1), st.integers(0, STREAMS - 1)),
    st.tuples(st.just("replay op"), st.integers(0, GRAPHS - 1), st.integers(0, STREAMS - 1)),
    st.tuples(st.just("chain"), st.integers(0, GRAPHS - 1), WORKS),
    st.tuples(st.just("drop"), st.integers(0, GRAPHS - 1), WORKS),
)


class Program:
    """A device, tensors, graphs, and what the tensors' elements have to be. Nothing waits for a
    stream before the end.
    """

    def __init__(self, graphs: list[list[tuple[int, int, int]]]) -> None:
        self.delays = random.Random(0)
        driver = PythonKernels(
            CpuOptions(run=add), pace=lambda: time.sleep(self.delays.random() / 5000)
        )
        self.driver = driver
        device = Device("cpu", driver=driver)
        self.module = load(bundle_of(ADD), device)
        self.streams = [Stream("cpu", driver=driver) for _ in range(STREAMS)]
        self.tensors = [
            Tensor.uninitialized((COUNT,), "f32", driver=driver, ordinal=-1, stream=0)
            for _ in range(TENSORS)
        ]
        self.expected = [float(number) for number in range(TENSORS)]
        for tensor, value in zip(self.tensors, self.expected, strict=True):
            np.asarray(tensor)[...] = value
        self.works = graphs
        self.graphs = [self.capture(works) for works in graphs]

    def capture(self, works: list[tuple[int, int, int]]) -> CudaGraph[Any]:
        with CudaGraph.scope(self.streams[0]) as scope:
            for work in works:
                scope.record(self.op(work))
        return scope.graph

    def op(self, work: tuple[int, int, int]) -> DeviceOp[Any]:
        target, first, second = (self.tensors[place] for place in work)
        if work[0] in work[1:]:
            return copy(target, first)
        return self.module.ops.add(target.borrow_mut(), first.borrow(), second.borrow())

    def play(self, work: tuple[int, int, int]) -> None:
        target, first, second = work
        self.expected[target] = self.expected[first] + (
            0 if target in work[1:] else self.expected[second]
        )

    def step(self, kind: str, what: Any, more: Any) -> None:
        match kind:
            case "launch" | "op":
                if kind == "op" or what[0] in what[1:]:
                    self.op(what).enqueue_on(self.streams[more])
                else:
                    self.module.add(
                        *(self.tensors[place] for place in what), stream=self.streams[more]
                    )
                self.play(what)
            case "replay" | "replay op":
                graph, stream = self.graphs[what], self.streams[more]
                if kind == "replay":
                    graph.replay(stream)
                else:
                    graph.launch().enqueue_on(stream)
                for work in self.works[what]:
                    self.play(work)
            case "chain":
                op = self.op(more[0]).map(
                    lambda _: None
                )  # borrows among the arguments end before the next op is built
                for work in more[1:]:
                    op = op.then(lambda _, work=work: self.op(work)).map(lambda _: None)  # type: ignore[misc]
                self.graphs[what] = op.graph_on(self.streams[0])
                self.works[what] = more
            case "drop":
                self.graphs[what] = self.capture(more)
                self.works[what] = more


@examples(40)
@given(graphs=st.lists(WORKS, min_size=GRAPHS, max_size=GRAPHS), steps=st.lists(STEPS, max_size=12))
def test_graphs_do_what_the_same_works_do_one_after_another(graphs: Any, steps: Any) -> None:
    program = Program(list(graphs))
    for step in steps:
        program.step(*step)
        if max(program.expected) > 1 << 18:  # stay where floats are exact
            break
    assert [contents(tensor) for tensor in program.tensors] == [
        {value} for value in program.expected
    ]
    for stream in program.streams:
        stream.close()
    program.driver.synchronize_device(-1)
