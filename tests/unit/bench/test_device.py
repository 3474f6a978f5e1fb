"""Launches as something to measure: how the cache is kept cold, what a sample is on a (pretended) GPU and on the cpu device."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.cpu_samples import device as cpu_device
from tests.runtime_samples import ADD, loaded
from tilec.bench.device import LaunchSubject
from tilec.runtime.memory import DeviceBuffer
from tilec.testing.fake_driver import H200, FakeDriver

COUNT = 1024
SIZE = 3 * 4 * COUNT  # bytes of one set of arguments


def subject(l2: int = 0) -> tuple[LaunchSubject, FakeDriver, list[dict[str, DeviceBuffer]]]:
    module, driver = loaded(ADD, devices=(dataclasses.replace(H200, l2=l2),))
    made: list[dict[str, DeviceBuffer]] = []

    def make() -> dict[str, DeviceBuffer]:
        made.append({name: DeviceBuffer((COUNT,), "f32", 0, driver=driver) for name in "zxy"})
        return made[-1]

    return LaunchSubject(module, driver, "add", {}, make), driver, made


def test_arguments_larger_than_the_cache_need_nothing() -> None:
    found, _, made = subject(l2=SIZE // 2)
    assert (found.cache, len(made)) == ("as it is", 1)
    assert found.variant.id == "add-a16"


def test_a_sample_is_one_graph_in_which_copies_of_the_arguments_take_turns() -> None:
    found, driver, made = subject(l2=2 * SIZE)
    assert (found.cache, len(made)) == ("rotated", 5)
    found.seconds(7)  # captures
    before = len(driver.launches), driver.calls.count("launch_graph")
    found.seconds(7)
    addresses = [launch.arguments[0] for launch in driver.launches[before[0] :]]
    assert addresses == [made[place % 5]["z"].ptr for place in range(7)]
    found.close()
    found.close()


def test_small_arguments_are_timed_one_by_one_behind_a_write_over_the_cache() -> None:
    found, driver, made = subject(l2=100 * SIZE)
    assert (found.cache, len(made)) == ("flushed", 1)
    before = len(driver.steps)
    found.seconds(2)
    assert [step.call for step in driver.steps[before:] if step.call in ("fill", "launch", "record")] == [
        "fill",
        "record",
        "launch",
        "record",
    ] * 2


def test_one_launch_needs_no_graph() -> None:
    found, driver, _ = subject()
    found.seconds(1)
    assert not any("graph" in call.lower() or "capture" in call.lower() for call in driver.calls)


def test_on_the_cpu_device_launches_do_their_work_and_take_time() -> None:
    module, driver = cpu_device()
    kept: list[dict[str, DeviceBuffer]] = []

    def make() -> dict[str, DeviceBuffer]:
        kept.append({name: DeviceBuffer.from_host(np.ones(64, np.float32), "cpu", driver=driver) for name in "zxy"})
        return kept[-1]

    with LaunchSubject(module, driver, "add", {}, make) as found:
        assert found.seconds(1) > 0
        assert found.seconds(3) > 0
        assert found.clocks() is None
        assert found.cache == "as it is"
    assert kept[0]["z"].to_host()[0] == pytest.approx(2.0)
