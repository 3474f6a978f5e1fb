"""Launches of one kernel that follow each other in a chain: with whatever tensors and numbers, and
among whatever other steps.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.unit.runtime.ops.chain_samples import Gpu, chained, on, owned
from tilec_runtime import value
from tilec_runtime.errors import DriverError, UsageError


@pytest.mark.parametrize(
    "turn", [(0, 1, 2), (1, 0, 2), (1, 2, 0)], ids=["the same", "two sets", "three sets"]
)
def test_tensors_that_change_places_are_launched_with_in_their_new_places(
    gpu: Gpu, turn: tuple[int, ...]
) -> None:
    module, driver = gpu
    tensors = on(driver, 512, 512, 512)
    found = chained(
        module.lazy.add(*tensors),
        11,
        lambda found: module.lazy.add(*(found[place] for place in turn)),
    ).sync()
    expected = list(tensors)
    for launch in driver.launches:
        assert launch.arguments[:3] == tuple(one.storage.address for one in expected)
        last, expected = expected, [expected[place] for place in turn]
    assert len(driver.launches) == 12
    assert [one.storage for one in found[:3]] == [one.storage for one in last]
    assert owned(*found[:3])


def test_a_launch_of_either_set_of_tensors_that_is_refused_gives_everything_back(gpu: Gpu) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    for steps in (6, 7, 8):

        def swapped(found: tuple[Any, ...], count: list[int] = [steps]) -> Any:  # noqa: B006 - its own count
            count[0] -= 1
            if not count[0]:
                driver.fail["launch"] = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
            return module.lazy.add(found[1], found[0], found[2])

        with pytest.raises(DriverError, match="launch of add, created at "):
            chained(module.lazy.add(z, x, y), 10, swapped).sync()
        driver.fail.clear()
        assert owned(z, x, y)
        assert [
            one.storage for one in chained(module.lazy.add(z, x, y), 3, swapped).sync()[:3]
        ] == [x.storage, z.storage, y.storage]
        z, x, y = on(driver, 512, 512, 512)


def test_whatever_comes_between_launches_of_a_kernel_has_its_turn(gpu: Gpu) -> None:
    """Launches of one kernel run in its own loop until a step gives something else; then that goes
    on with the same list of steps.
    """
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    seen: list[Any] = []

    def add(found: tuple[Any, ...]) -> Any:
        return module.lazy.add(*found[:3])

    op = chained(module.lazy.add(z, x, y), 4, add).inspect(seen.append).map(lambda found: found[:3])
    op = chained(op, 3, add).then(
        lambda found: value(found).then(add).then(add)
    )  # a chain of its own
    op = chained(op, 2, add).then(value).map(lambda found: (found[1], found[0], found[2]))
    op = chained(op, 2, lambda found: module.lazy.add(*found[:3], 3.0))  # a number that is new
    found = chained(op, 3, add).sync()
    assert [one.storage for one in found[:3]] == [x.storage, z.storage, y.storage]
    assert owned(*found[:3])
    assert len(seen) == 1
    first, second = z.storage.address, x.storage.address
    places = [(launch.arguments[0], launch.arguments[1]) for launch in driver.launches]
    assert places == [(first, second)] * 12 + [(second, first)] * 5
    assert [launch.arguments[-1] for launch in driver.launches].count(3.0) == 2


@pytest.mark.parametrize("given", [None, 3, "op", value])
def test_a_step_among_launches_that_gives_no_op_is_named(gpu: Gpu, given: Any) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    op = chained(module.lazy.add(z, x, y), 5, lambda found: module.lazy.add(*found))
    op, line = op.then(lambda _: given), sys._getframe().f_lineno
    with pytest.raises(UsageError, match="the function of `then` gave a ") as caught:
        op.then(lambda found: module.lazy.add(*found)).sync()
    assert str(caught.value.op) == f"then, created at {__file__}:{line}"
    assert owned(z, x, y)


def test_an_error_of_a_function_among_launches_is_named_by_its_own_step(gpu: Gpu) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)

    def fails(_: object) -> Any:
        raise UsageError("no")

    op = chained(module.lazy.add(z, x, y), 5, lambda found: module.lazy.add(*found))
    op, line = op.then(fails), sys._getframe().f_lineno
    with pytest.raises(UsageError) as caught:
        op.then(lambda found: module.lazy.add(*found)).sync()
    assert str(caught.value.op) == f"then, created at {__file__}:{line}"
    assert owned(z, x, y)
