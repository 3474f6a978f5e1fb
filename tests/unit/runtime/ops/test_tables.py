"""The pages on device operations and on graphs say who picks the stream and who waits; here each way is
held against its row.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ones
from tests.docs_pages import rows
from tests.unit.runtime.ops.device_samples import Held
from tests.unit.runtime.ops.graph_samples import Cpu, contents
from tests.waiting import PATIENCE, becomes
from tilec_runtime import (
    CudaGraph,
    DeviceFuture,
    DeviceOp,
    SingleStream,
    use_device,
    use_policy,
    with_context,
)

OPS, GRAPHS = (
    {way.strip("`"): cells for way, *cells in rows(f"docs/how-to/{page}.md", heading)}
    for page, heading in (("ops", "Run"), ("graphs", "Capture, then replay"))
)
# Each way, of (an op, a stream of the caller's, a policy, what lets the device go on).
WAYS: dict[str, Callable[[DeviceOp[Any], Any, Any, threading.Event], Any]] = {
    "op.sync()": lambda op, stream, policy, gate: op.sync(),
    "op.sync_on(stream)": lambda op, stream, policy, gate: op.sync_on(stream),
    "op.enqueue_on(stream)": lambda op, stream, policy, gate: op.enqueue_on(stream),
    "op.future()": lambda op, stream, policy, gate: op.future(),
    "op.schedule(policy)": lambda op, stream, policy, gate: op.schedule(policy),
    "await op": lambda op, stream, policy, gate: asyncio.run(awaited(op, gate)),
}


async def awaited(op: DeviceOp[Any], gate: threading.Event) -> Any:
    """The result, of a device that goes on once another task has had twenty turns."""

    async def other() -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        gate.set()

    task = asyncio.ensure_future(other())
    try:
        return await op
    finally:
        await task


def public_ways() -> set[str]:
    """The methods of an op whose docstrings say that they enqueue or run it."""
    found = {
        name
        for name, value in inspect.getmembers(DeviceOp, callable)
        if re.match(r"\S*\s*(\S+ )*([Ee]nqueue|Run it|Do as `future`)", value.__doc__ or "")
    }
    return {"await" if name == "__await__" else name for name in found if name != "_execute"}


def test_the_table_has_every_way_and_no_other() -> None:
    named = {
        "await" if row.startswith("await") else re.findall(r"op\.(\w+)", row)[0] for row in OPS
    }
    assert named == public_ways()
    assert set(OPS) == set(WAYS)


@pytest.mark.parametrize("way", WAYS)
def test_a_way_to_run_does_what_its_row_says(way: str) -> None:
    held = Held()
    current, given = SingleStream(held.device), SingleStream(held.device)
    stream = held.device.new_stream()
    names = {
        current.next_stream().handle: "the current policy",
        given.next_stream().handle: "the given policy",
        stream.handle: "the caller",
    }
    picked: list[str] = []
    results: list[Any] = []

    def work(ctx: Any) -> Any:
        picked.append(names[ctx.stream])
        return held.increment(ctx, np.zeros(4, np.float32), ones(4))

    def run() -> None:
        with use_device(held.device), use_policy(current):
            results.append(WAYS[way](with_context(work), stream, given, held.gate))

    stream_told, waits_told, gives_told = OPS[way]
    thread = threading.Thread(target=run)
    with held.held():
        thread.start()
        if waits_told == "no":
            thread.join(PATIENCE)
            assert not thread.is_alive()
        elif waits_told == "no: other tasks run":
            assert held.gate.wait(PATIENCE), "no other task ran"
        else:
            assert becomes(lambda: picked)
            thread.join(0.05)
            assert thread.is_alive(), "it does not wait for the device"
    thread.join(PATIENCE)
    assert picked == [stream_told]
    (result,) = results
    assert isinstance(result, DeviceFuture) == (gives_told == "a `DeviceFuture`")
    array = result.result() if isinstance(result, DeviceFuture) else result
    stream.sync()
    assert array.tolist() == [2.0] * 4


# Each way, of (graph, an op, a stream of the caller's).
GRAPH_WAYS: dict[str, Callable[[CudaGraph[Any], Callable[[], DeviceOp[Any]], Any], Any]] = {
    "op.graph()": lambda graph, op, stream: op().graph(),
    "op.graph_on(stream)": lambda graph, op, stream: op().graph_on(stream),
    "graph.launch()": lambda graph, op, stream: graph.launch().enqueue_on(stream),
    "graph.replay(stream)": lambda graph, op, stream: graph.replay(stream),
    "graph.replay()": lambda graph, op, stream: graph.replay(),
    "graph.update(op)": lambda graph, op, stream: graph.update(op()),
    "graph.take_output()": lambda graph, op, stream: graph.take_output(),
}
CAPTURES = ("op.graph()", "op.graph_on(stream)")


def test_the_table_of_graphs_has_every_way_and_no_other() -> None:
    assert set(GRAPHS) == set(GRAPH_WAYS)
    named = set(re.findall(r"graph\.(\w+)", " ".join(GRAPHS)))
    methods = inspect.getmembers(CudaGraph, callable)
    public = {name for name, _ in methods if not name.startswith("_")}
    assert named == public - {"close", "scope"}


@pytest.mark.parametrize("way", GRAPH_WAYS)
def test_a_way_of_graphs_does_what_its_row_says(way: str) -> None:
    cpu = Cpu()
    policy, given, own = SingleStream(cpu.device), cpu.device.new_stream(), cpu.device.new_stream()
    names = {
        policy.next_stream().handle: "the current policy",
        given.handle: "the caller",
        own.handle: "the graph's stream",
    }
    one = cpu.tensor(1)
    graph = cpu.add(cpu.tensor(0), one.borrow(), one.borrow()).graph_on(own)
    used: list[int] = []

    def op() -> DeviceOp[Any]:
        return with_context(lambda ctx: used.append(ctx.stream)).then(
            lambda _: cpu.add(cpu.tensor(0), one.borrow(), one.borrow())
        )

    launch = cpu.driver.launch_graph

    def launched(ordinal: int, executable: Any, stream: int) -> None:
        used.append(stream)
        launch(ordinal, executable, stream)

    setattr(cpu.driver, "launch_graph", launched)  # noqa: B010 - in place of the method
    results: list[Any] = []

    def run() -> None:
        with use_device(cpu.device), use_policy(policy):
            results.append(GRAPH_WAYS[way](graph, op, given))

    picked, waits, gives = GRAPHS[way]
    cpu.gate.clear()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "nothing here waits for the device"
    assert waits in ("no", "as the op is run")
    cpu.gate.set()
    (result,) = results
    if way in CAPTURES:
        assert not set(used) & set(names), "captured on a stream of its own"
        assert names[result.stream.handle] == picked
    elif picked == "none":
        assert used == []
    else:
        assert [names[stream] for stream in used] == [
            "the caller" if picked == "as the op is run" else picked
        ]
    if gives.startswith("a `CudaGraph`"):
        assert isinstance(result, CudaGraph)
    elif "result" in gives:
        assert contents(result) in ({2.0}, {0.0})
    else:
        assert result is None
