"""The page on device operations says who picks the stream and who waits; here each way to run an op
is held against its row.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ones
from tests.unit.runtime.ops.device_samples import Held
from tests.waiting import PATIENCE, becomes
from tilec_runtime import DeviceFuture, DeviceOp, SingleStream, use_device, use_policy, with_context

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "ops.md"
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


def rows() -> dict[str, tuple[str, str, str]]:
    section = PAGE.read_text(encoding="utf-8").split("\n## Run\n")[1].split("\n## ")[0]
    lines = [line for line in section.split("\n") if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): (row[1], row[2], row[3]) for row in cells}


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
        "await" if row.startswith("await") else re.findall(r"op\.(\w+)", row)[0] for row in rows()
    }
    assert named == public_ways()
    assert set(rows()) == set(WAYS)


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
        return held.add(ctx, np.zeros(4, np.float32), ones(4))

    def run() -> None:
        with use_device(held.device), use_policy(current):
            results.append(WAYS[way](with_context(work), stream, given, held.gate))

    stream_told, waits_told, gives_told = rows()[way]
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
