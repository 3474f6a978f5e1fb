"""Launches as something to measure: how the cache is kept cold, what a sample is on a (pretended)
GPU and on the cpu device.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.cpu_samples import device as cpu_device
from tests.runtime_samples import ADD, loaded
from tilec.bench.device import HOST_LAUNCHES, LaunchSubject
from tilec.testing.fake_driver import H200, FakeDriver
from tilec_runtime.tensors.buffer import DeviceBuffer

COUNT = 1024
SIZE = 3 * 4 * COUNT  # bytes of one set of arguments


def subject(
    l2: int = 0, *, cold: bool = True
) -> tuple[LaunchSubject, FakeDriver, list[dict[str, DeviceBuffer]]]:
    module, driver = loaded(ADD, devices=(dataclasses.replace(H200, l2=l2),))
    made: list[dict[str, DeviceBuffer]] = []

    def make() -> dict[str, DeviceBuffer]:
        made.append({name: DeviceBuffer((COUNT,), "f32", 0, driver=driver) for name in "zxy"})
        return made[-1]

    return LaunchSubject(module, driver, "add", {}, make, cold=cold), driver, made


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


def test_small_arguments_have_a_copy_for_each_launch_and_the_cache_is_written_over_before_each_sample() -> (
    None
):
    found, driver, made = subject(l2=100 * SIZE)
    assert (found.cache, len(made)) == ("flushed", 201)
    found.seconds(7)  # captures
    before, launched = len(driver.steps), len(driver.launches)
    found.seconds(7)
    steps = [
        step.call for step in driver.steps[before:] if step.call in ("fill", "launch", "record")
    ]
    assert steps == ["fill", "record", *["launch"] * 7, "record"]
    addresses = [launch.arguments[0] for launch in driver.launches[launched:]]
    assert addresses == [one["z"].ptr for one in made[:7]]


def test_a_sample_of_more_launches_than_there_are_copies_is_taken_in_parts() -> None:
    found, driver, _ = subject(l2=100 * SIZE)
    found.seconds(450)
    before = len(driver.steps)
    found.seconds(450)
    assert [step.call for step in driver.steps[before:]].count("fill") == 3


def test_a_hot_cache_is_left_alone() -> None:
    found, _, made = subject(l2=2 * SIZE, cold=False)
    assert (found.cache, len(made)) == ("hot", 1)


def test_what_a_call_costs_the_host_is_timed_by_its_clock() -> None:
    found, driver, _ = subject()
    ticks = iter((10.0, 10.0 + HOST_LAUNCHES * 3e-6))
    before = len(driver.launches)
    assert found.host_seconds(1000, lambda: next(ticks)) == pytest.approx(3e-6)
    assert len(driver.launches) - before == HOST_LAUNCHES + 1


def test_one_launch_needs_no_graph() -> None:
    found, driver, _ = subject()
    found.seconds(1)
    assert not any("graph" in call.lower() or "capture" in call.lower() for call in driver.calls)


def test_on_the_cpu_device_launches_do_their_work_and_take_time() -> None:
    module, driver = cpu_device()
    kept: list[dict[str, DeviceBuffer]] = []

    def make() -> dict[str, DeviceBuffer]:
        kept.append(
            {
                name: DeviceBuffer.from_host(np.ones(64, np.float32), "cpu", driver=driver)
                for name in "zxy"
            }
        )
        return kept[-1]

    with LaunchSubject(module, driver, "add", {}, make) as found:
        assert found.seconds(1) > 0
        assert found.seconds(3) > 0
        assert found.clocks() is None
        assert found.host_seconds(8, lambda: 0.0) is None
        assert found.cache == "as it is"
    assert kept[0]["z"].to_host()[0] == pytest.approx(2.0)
