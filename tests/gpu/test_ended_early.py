"""What ends before the device is done: cancelled awaits, dropped futures and tensors, while a
stream is busy; and random numbers there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing

import numpy as np
import pytest

from tests.gpu.busy import Busy
from tilec_runtime import Device, DeviceOp, SingleStream, Tensor, api, use_device
from tilec_runtime.device.completion import COMPLETIONS

pytestmark = pytest.mark.gpu
SIZE = 1 << 20
# About 0.1 s of the device's clock: the host is slow under compute-sanitizer.
LONG = 200_000_000


def written() -> DeviceOp[Tensor]:
    """Takes memory, and writes it twice."""
    return api.ones(SIZE).then(lambda t: api.fill(t, 2.5))


def cancelled(policy: SingleStream) -> None:
    async def main() -> None:
        task = asyncio.ensure_future(written().schedule(policy))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def dropped(policy: SingleStream) -> None:
    future = written().schedule(policy)
    del future


def used_and_dropped(policy: SingleStream) -> None:
    """Memory of one stream whose last use is on another, busy one."""
    t = api.ones(SIZE).sync()
    back = api.fill(t, 2.5).enqueue_on(policy.next_stream())
    del t, back


def read_and_dropped(policy: SingleStream) -> None:
    t = api.ones(SIZE).sync().share()
    future = t.dup().schedule(policy)
    del t, future


@pytest.mark.parametrize("end", [cancelled, dropped, used_and_dropped, read_and_dropped])
def test_memory_is_kept_until_the_device_is_done(end: Callable[[SingleStream], None]) -> None:
    """What were given back early would be given out again, and then be written over."""
    device = Device(0)
    with use_device(device), closing(SingleStream(device)) as policy:
        api.fill(api.ones(SIZE), 2.5).sync()  # the kernel is loaded
        for _ in range(3):
            Busy(device)(policy.next_stream(), LONG)
            end(policy)
            others = [api.full(SIZE, 7).sync() for _ in range(6)]
            policy.next_stream().sync()
            assert all((other.to_host() == 7).all() for other in others)
    assert COMPLETIONS.drain(10)


def test_random_numbers_come_in_the_order_of_their_stream() -> None:
    device = Device(0)
    with use_device("cpu"):
        wanted = api.rand(SIZE, seed=5).to_host().sync()
    with use_device(device), closing(SingleStream(device)) as policy:
        t = api.zeros(SIZE).sync()
        for _ in range(3):
            Busy(device)(policy.next_stream(), LONG)
            made = (
                api.rand(SIZE, seed=5)
                .then(lambda found: api.memcpy(t, found))
                .enqueue_on(policy.next_stream())
            )
            assert made is None
            assert np.array_equal(t.to_host(), wanted)
            api.fill(t.borrow_mut(), 0).sync()
