"""Plans that are cached launch what a plan that is made for the call launches, or refuse it in the same words."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.plan_samples import Calls, Kernels, launcher_of
from tests.runtime_samples import ADD, GEMM
from tilec.errors import TilecError
from tilec.model.kernel import KernelInfo
from tilec.runtime.launch import Launcher
from tilec.testing.fake_driver import FakeDriver


def outcome(launcher: Launcher, driver: FakeDriver, values: tuple[Any, ...]) -> list[str]:
    """What came of a launch: all that the driver was given, or the error's text."""
    driver.launches.clear()
    try:
        launcher(5, *values)
    except TilecError as error:
        return [f"{type(error).__name__}: {error}"]
    for launch in driver.launches:  # the function was opted in to its shared memory
        assert launch.shape.shared <= max(48 * 1024, driver.allowed_shared.get(launch.symbol, 0))
    return [f"{launch.symbol} {launch.shape} {launch.arguments!r}" for launch in driver.launches]


def compare(info: KernelInfo, pick: random.Random, count: int) -> tuple[int, int]:
    """Call one launcher with its plans and one without; how many calls launched, and how many of those by a cached plan."""
    (cached, driver), (fresh, other) = launcher_of(info), launcher_of(info)
    calls = Calls(info, pick)
    launched = hits = 0
    for _ in range(count):
        values, before = calls.arguments(), len(cached.plans)
        fresh.plans.clear()
        found, expected = outcome(cached, driver, values), outcome(fresh, other, values)
        assert found == expected, f"{info}\n{calls.values}"
        if driver.launches:
            launched += 1
            hits += len(cached.plans) == before
            calls.keep()
        calls.change()
    return launched, hits


def working(pick: random.Random, name: str) -> KernelInfo:
    """A random kernel whose first call launches."""
    while True:
        info = Kernels(pick).one(name)
        launcher, driver = launcher_of(info)
        if outcome(launcher, driver, Calls(info, pick).arguments()) and driver.launches:
            return info


@pytest.mark.parametrize("seed", range(6))
def test_random_kernels_launch_the_same_with_and_without_plans(seed: int) -> None:
    pick = random.Random(seed)
    found = [compare(working(pick, f"k{number}"), pick, 60) for number in range(10)]
    launched, hits = map(sum, zip(*found, strict=True))
    assert launched > 150
    assert hits > launched // 3


@pytest.mark.parametrize("info", [ADD, GEMM], ids=lambda info: info.name)
def test_samples_launch_the_same_with_and_without_plans(info: KernelInfo) -> None:
    assert compare(info, random.Random(7), 600)[1] > 100
