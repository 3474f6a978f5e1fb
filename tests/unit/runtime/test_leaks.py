"""Many launches, ops and cancelled awaits leave memory where it was: a short form of
`benchmarks/leaks.py`, on the cpu device.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable

import pytest

from tests.unit.runtime.ops.device_samples import Held
from tilec_runtime import Stream, Tensor, use_device
from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.tensors.storage import Storage

TIMES, WARM, MEASURED = 50, 3, 2
# Bytes by which Python's own tables come and go: less than a tensor of each launch would take.
ALLOWED = 64 * 1024


def tensors(held: Held) -> list[Tensor]:
    return [held.tensor(0, 8) for _ in range(3)]


def launches(held: Held) -> None:
    with Stream("cpu", driver=held.driver) as stream:
        z, x, y = tensors(held)
        for _ in range(TIMES):
            held.module.add(z, x, y, stream=stream)
            held.module.add(*tensors(held), stream=stream)
        stream.sync()


def chains(held: Held) -> None:
    arguments = tuple(tensors(held))
    for _ in range(TIMES // 10):
        op = held.module.ops.add(*arguments).then(lambda found: held.module.ops.add(*found))
        *found, _ = op.sync()
        arguments = tuple(found)
        held.module.ops.add(*tensors(held))  # dropped


def cancelled(held: Held) -> None:
    async def batch() -> None:
        tasks = [
            asyncio.ensure_future(held.module.ops.add(*tensors(held))) for _ in range(TIMES // 10)
        ]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError] * len(tasks)

    for _ in range(3):
        with held.held():
            asyncio.run(batch())


def alive() -> tuple[int, ...]:
    """How many objects there are of the kinds that launches make."""
    kinds = [type(one) for one in gc.get_objects()]
    return kinds.count(Storage), kinds.count(Tensor)


@pytest.mark.parametrize("work", [launches, chains, cancelled])
def test_memory_is_left_where_it_was(
    work: Callable[[Held], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilec_runtime.device.lines._KEPT", 4)  # as many as there are after a while
    held, found = Held(), []
    with use_device(held.device):
        work(held)
        tracemalloc.start()
        for _ in range(WARM + MEASURED):
            work(held)
            assert COMPLETIONS.drain(10)
            held.device.sync()
            gc.collect()
            found.append((alive(), tracemalloc.get_traced_memory()[0]))
        tracemalloc.stop()
    (objects, before), (left, after) = found[WARM - 1], found[-1]
    assert left == objects
    assert after - before <= ALLOWED
