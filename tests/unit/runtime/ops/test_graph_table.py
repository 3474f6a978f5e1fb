"""The page on graphs says who picks the stream and who waits; here each way is held against its
row.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runtime.ops.graph_samples import Cpu, contents
from tests.waiting import PATIENCE
from tilec_runtime import CudaGraph, DeviceOp, SingleStream, use_device, use_policy, with_context

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "graphs.md"
# Each way, of (graph, an op, a stream of the caller's).
WAYS: dict[str, Callable[[CudaGraph[Any], Callable[[], DeviceOp[Any]], Any], Any]] = {
    "op.graph()": lambda graph, op, stream: op().graph(),
    "op.graph_on(stream)": lambda graph, op, stream: op().graph_on(stream),
    "graph.launch()": lambda graph, op, stream: graph.launch().enqueue_on(stream),
    "graph.replay(stream)": lambda graph, op, stream: graph.replay(stream),
    "graph.replay()": lambda graph, op, stream: graph.replay(),
    "graph.update(op)": lambda graph, op, stream: graph.update(op()),
    "graph.take_output()": lambda graph, op, stream: graph.take_output(),
}
CAPTURES = ("op.graph()", "op.graph_on(stream)")


def rows() -> dict[str, tuple[str, str, str]]:
    section = (
        PAGE.read_text(encoding="utf-8").split("\n## Capture, then replay\n")[1].split("\n## ")[0]
    )
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.split("\n")
        if line.startswith("| `")
    ]
    return {row[0].strip("`"): (row[1], row[2], row[3]) for row in cells}


def test_the_table_has_every_way_and_no_other() -> None:
    assert set(rows()) == set(WAYS)
    named = set(re.findall(r"graph\.(\w+)", " ".join(rows())))
    methods = inspect.getmembers(CudaGraph, callable)
    public = {name for name, _ in methods if not name.startswith("_")}
    assert named == public - {"close", "scope"}


@pytest.mark.parametrize("way", WAYS)
def test_a_way_does_what_its_row_says(way: str) -> None:
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
            results.append(WAYS[way](graph, op, given))

    picked, waits, gives = rows()[way]
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
