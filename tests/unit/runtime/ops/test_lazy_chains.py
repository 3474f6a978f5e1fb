"""Chains of launches whose tensors move from one to the next: what the driver gets, who owns what,
and which lines messages name.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.runtime_samples import ADD, bundle_of, fake_driver, loaded
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Device, Module, Stream, use_device
from tilec_runtime.errors import DriverError, UseAfterMoveError, UsedOpError
from tilec_runtime.package import Package
from tilec_runtime.tensors.tensor import Tensor


@pytest.fixture
def gpu() -> Iterator[tuple[Module, FakeDriver]]:
    module, driver = loaded(ADD)
    with use_device(Device(0, driver=driver)):
        yield module, driver


def on(driver: FakeDriver, *extents: int) -> list[Tensor]:
    return [
        Tensor.uninitialized((extent,), "f32", driver=driver, ordinal=0, stream=0)
        for extent in extents
    ]


def test_every_launch_of_a_chain_gets_its_own_arguments(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    first = (z.ptr, x.ptr, y.ptr)

    def turned(found: Any, turn: int) -> Any:
        places = [found[(turn + offset) % 3] for offset in range(3)]
        return module.ops.add(*places, float(turn // 2))

    op: Any = module.ops.add(z, x, y)
    for turn in range(1, 9):
        op = op.then(functools.partial(turned, turn=turn))
    with Stream(0, driver=driver) as stream:
        *_, alpha = op.sync_on(stream)
    expected, places = [(*first, 512, 1.0)], first
    for turn in range(1, 9):
        places = tuple(places[(turn + offset) % 3] for offset in range(3))  # type: ignore[assignment]
        expected.append((*places, 512, float(turn // 2)))
    assert [launch.arguments for launch in driver.launches] == expected
    assert alpha == 4.0


def test_the_first_launch_of_a_package_is_an_op() -> None:
    """Nothing has read the kernel's row on that device before."""
    driver, package = fake_driver(ADD), Package("sample", "sample.tilec")
    package._bundle = bundle_of(ADD)
    add = package.makers["add"]
    with use_device(Device(0, driver=driver)):
        z, x, y = on(driver, 512, 512, 512)
        addresses = (z.ptr, x.ptr, y.ptr)
        add((z, x, y, 2.0)).sync()
    assert [launch.arguments for launch in driver.launches] == [(*addresses, 512, 2.0)]


def test_a_package_makes_what_makes_launches_of_a_kernel_once() -> None:
    driver, package = fake_driver(ADD), Package("sample", "sample.tilec")
    package._bundle = bundle_of(ADD)
    assert package.makers["add"] is package.makers["add"]
    with use_device(Device(0, driver=driver)):
        package.makers["add"]((*on(driver, 512, 512, 512), 2.0)).sync()
    assert [launch.arguments[4] for launch in driver.launches] == [2.0]


def test_a_chain_that_fails_gives_back_what_moved_in(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)

    def again(found: Any, turn: int) -> Any:
        if turn == 3:
            driver.fail["launch"] = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
        return module.ops.add(*found)

    for _ in range(2):
        op: Any = module.ops.add(z, x, y)
        for turn in range(5):
            op = op.then(functools.partial(again, turn=turn))
        with pytest.raises(UseAfterMoveError):
            x.share()
        with pytest.raises(DriverError, match=r"^add: .*CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"):
            op.sync()
        driver.fail.clear()
    module.ops.add(z, x, y).sync()


def test_ops_that_are_dropped_give_back_what_moved_in(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    gc.disable()
    try:
        for _ in range(2):
            op: Any = module.ops.add(z, x, y).then(lambda found: module.ops.add(*found))
            del op
            assert (z.ptr, x.ptr, y.ptr) == (
                z.storage.address,
                x.storage.address,
                y.storage.address,
            )
    finally:
        gc.enable()
    assert driver.launches == []


def test_another_grid_takes_the_longer_way(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    found = module.ops.add(z, x, y).grid(7).sync()
    assert [launch.shape.grid for launch in driver.launches] == [(7, 1, 1)]
    assert found[0].ptr == driver.launches[0].arguments[0]
    driver.fail["launch"] = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
    with pytest.raises(DriverError):
        module.ops.add(*found).grid(8).sync()
    assert found[0].ptr == driver.launches[0].arguments[0]


def test_memory_goes_with_the_last_owner_and_not_with_the_collector(
    gpu: tuple[Module, FakeDriver],
) -> None:
    module, driver = gpu
    op: Any = module.ops.add(*on(driver, 512, 512, 512))
    for _ in range(4):
        op = op.then(lambda found: module.ops.add(*found))
    gc.collect()
    gc.disable()
    try:
        found = op.sync()
        assert [step for step in driver.steps if step.call == "free"] == []
        del found, op
        assert len([step for step in driver.steps if step.call == "free"]) == 3
    finally:
        gc.enable()


def test_messages_name_the_lines(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    line = sys._getframe().f_lineno + 1
    op = module.ops.add(z, x, y)
    assert (op.created.file, op.created.line) == (__file__, line)
    with pytest.raises(UseAfterMoveError, match=rf"the launch of add \({__file__}:{line}\)"):
        x.share()
    chain = op.then(
        lambda found: module.ops.add(*found),
    )
    assert chain.created.line == line + 4
    with pytest.raises(UsedOpError, match=rf"moved into then at {__file__}:{line + 4}"):
        op.sync()
    last = sys._getframe().f_lineno + 1
    chain.sync()
    with pytest.raises(UsedOpError, match=rf"executed at {__file__}:{last}"):
        chain.sync()


def test_a_long_chain_keeps_no_more_than_a_short_one(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    counts = []

    def counted(found: Any) -> Any:
        counts.append(sum(type(one) is Tensor for one in gc.get_objects()))
        return module.ops.add(*found)

    z, x, y = on(driver, 512, 512, 512)
    op: Any = module.ops.add(z, x, y)
    for _ in range(20):
        op = op.then(counted)

    def failing(found: Any) -> Any:
        driver.fail["launch"] = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
        return module.ops.add(*found)

    with pytest.raises(DriverError):
        op.then(failing).sync()
    driver.fail.clear()
    assert counts[-1] <= counts[1] + 3
    assert len({z.ptr, x.ptr, y.ptr}) == 3  # back with whom the first launch had them from
