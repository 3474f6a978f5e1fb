"""Who picks the stream: policies, and the default device and policy of threads and tasks."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Iterator

import pytest

from tests.unit.runtime.ops.device_samples import Held
from tests.waiting import at_once
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Device, DeviceBuffer, Event, MemPool, Stream
from tilec_runtime.device import devices as defaults
from tilec_runtime.errors import SchedulingError
from tilec_runtime.ops import policy
from tilec_runtime.ops.combinators import with_context
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.ops.policy import (
    SingleStream,
    StreamPoolRoundRobin,
    current_device,
    current_policy,
    default_policy,
    set_default_device,
    use_device,
    use_policy,
)


def stream() -> DeviceOp[int]:
    return with_context(lambda ctx: ctx.stream)


def test_a_pool_needs_a_stream() -> None:
    with pytest.raises(SchedulingError, match="a pool of 0 streams has none to give"):
        StreamPoolRoundRobin(0, "cpu")


def test_what_is_no_policy_is_refused(held: Held) -> None:
    for refused in (lambda: stream().schedule(4), lambda: use_policy("SingleStream").__enter__()):
        with pytest.raises(
            SchedulingError, match=r"is no scheduling policy: it has no next_stream\(\)"
        ):
            refused()


def test_the_innermost_default_counts(held: Held) -> None:
    single, gpu = SingleStream(held.device), Device(0, driver=FakeDriver())
    with use_policy(single):
        assert (current_policy(), current_device()) == (single, held.device)
        with use_device(gpu):  # a device brings its own policy
            assert current_policy() is default_policy(gpu)
        assert current_policy() is single
    assert current_policy() is default_policy(held.device)


def forget_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defaults, "_process", None)
    monkeypatch.setattr(policy, "_device_0", functools.cache(lambda: Device(0)))


def test_the_default_is_device_0(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver()
    monkeypatch.setattr("tilec_runtime.device.driver.driver", lambda: driver)
    forget_defaults(monkeypatch)
    assert current_device() == Device(0, driver=driver)
    assert current_device() is current_device()


def test_tasks_have_defaults_of_their_own(held: Held) -> None:
    one, two = SingleStream(held.device), SingleStream(held.device)

    async def use(mine: SingleStream) -> set[int]:
        with use_policy(mine):
            seen = set()
            for _ in range(3):
                seen.add(await stream())
                await asyncio.sleep(0)
            return seen

    async def both() -> list[set[int]]:
        return list(await asyncio.gather(use(one), use(two)))

    first, second = asyncio.run(both())
    assert (len(first), len(second)) == (1, 1)
    assert first != second


def test_threads_inherit_no_settings_and_to_thread_does(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_defaults(monkeypatch)
    set_default_device(held.device)
    seen: list[Device] = []
    with use_device(Device(0, driver=FakeDriver())) as device:
        at_once(lambda: seen.append(current_device()))
        seen.append(asyncio.run(asyncio.to_thread(current_device)))
    assert seen == [held.device, device]


def test_a_block_of_a_generator_may_end_in_another_context(held: Held) -> None:
    def block() -> Iterator[Device]:
        with use_policy(SingleStream(held.device)), use_device(held.device) as device:
            yield device

    begun = block()
    assert contextvars.copy_context().run(next, begun) == held.device
    with use_policy(SingleStream(held.device)) as mine:
        assert list(begun) == []
        assert current_policy() is mine


def test_what_names_no_device_means_the_default_one(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_defaults(monkeypatch)

    def unnamed() -> None:  # outside of any use_device
        set_default_device("cpu")
        with Stream() as stream, MemPool() as pool:
            assert (stream.device, pool.device, Event().device) == (-1, -1, -1)
            assert DeviceBuffer((4,), "f32").device == -1
        driver = FakeDriver()
        with use_device(Device(0, driver=driver)), Stream() as stream:
            assert (stream.device, stream.driver) == (0, driver)

    contextvars.Context().run(unnamed)
