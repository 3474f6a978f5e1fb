"""Steps of a chain whose tensors nobody else has: the same objects go through, and whoever keeps
one sees what became of it.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.unit.runtime.ops.chain_samples import Gpu, chained, on, owned
from tests.waiting import at_once
from tilec_runtime import as_op, zip_ops
from tilec_runtime.errors import (
    BorrowError,
    DriverError,
    UsageError,
    UseAfterMoveError,
    UsedOpError,
)


def test_use_between_the_op_and_its_return(gpu: Gpu) -> None:
    module, driver = gpu

    def uses(found: tuple[Any, ...]) -> Any:
        op = module.ops.add(*found)
        with pytest.raises(UseAfterMoveError):
            found[0].share()
        with pytest.raises(UseAfterMoveError):
            module.ops.add(*found)
        return op

    z, x, y, _ = chained(module.ops.add(*on(driver, 512, 512, 512)), 5, uses).sync()
    assert owned(z, x, y)
    assert len(driver.launches) == 6


def test_ops_that_a_step_makes_and_drops(gpu: Gpu) -> None:
    module, driver = gpu

    def twice(found: tuple[Any, ...]) -> Any:
        module.ops.add(*found)  # dropped: it gives its tensors back
        return module.ops.add(*found)

    z, x, y, _ = chained(module.ops.add(*on(driver, 512, 512, 512)), 5, twice).sync()
    assert owned(z, x, y)
    assert len(driver.launches) == 6


def test_an_op_that_somebody_keeps_stays_used(gpu: Gpu) -> None:
    module, driver = gpu
    kept: list[Any] = []
    seen: list[int] = []

    def keeps(found: tuple[Any, ...]) -> Any:
        op = module.ops.add(*found)
        seen.append(id(op))
        if len(seen) % 2:
            kept.append(op)
        return op

    chained(module.ops.add(*on(driver, 512, 512, 512)), 8, keeps).sync()
    assert len({id(op) for op in kept}) == 4
    for op in kept:
        with pytest.raises(UsedOpError, match="executed as a part of another op"):
            op.sync()


def test_a_used_op_that_a_step_gives_is_refused(gpu: Gpu) -> None:
    module, driver = gpu

    def spent(found: tuple[Any, ...]) -> Any:
        op = module.ops.add(*found)
        op.then(as_op)
        return op

    z, x, y = on(driver, 512, 512, 512)
    with pytest.raises(UsedOpError, match="moved into then"):
        chained(module.ops.add(z, x, y), 3, lambda found: module.ops.add(*found)).then(spent).sync()
    assert len(driver.launches) == 4


def test_borrows_are_in_the_way_of_a_step(gpu: Gpu) -> None:
    module, driver = gpu

    def borrows(found: tuple[Any, ...]) -> Any:
        with found[1].borrow(), pytest.raises(BorrowError):
            module.ops.add(*found)
        with pytest.raises(UseAfterMoveError, match="twice"):
            module.ops.add(found[0], found[1], found[1])
        return module.ops.add(*found)

    z, x, y, _ = chained(module.ops.add(*on(driver, 512, 512, 512)), 5, borrows).sync()
    assert owned(z, x, y)


def test_a_launch_that_is_refused_in_the_middle_gives_everything_back(gpu: Gpu) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)

    def fails(found: tuple[Any, ...]) -> Any:
        driver.fail["launch"] = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
        return module.ops.add(*found)

    line = fails.__code__.co_firstlineno + 2
    for _ in range(3):
        op = chained(module.ops.add(z, x, y), 6, lambda found: module.ops.add(*found))
        with pytest.raises(DriverError, match=rf"launch of add, created at {__file__}:{line}"):
            op.then(fails).then(lambda found: module.ops.add(*found)).sync()
        driver.fail.clear()
        assert owned(z, x, y)
    assert (
        chained(module.ops.add(z, x, y), 2, lambda found: module.ops.add(*found)).sync()[0].storage
        is z.storage
    )


def test_a_graph_of_a_chain(gpu: Gpu) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    addresses = (z.ptr, x.ptr, y.ptr)
    warm = chained(module.ops.add(z, x, y), 4, lambda found: module.ops.add(*found)).sync()
    before = len(driver.launches)
    with chained(
        module.ops.add(*warm[:3]), 4, lambda found: module.ops.add(*found)
    ).graph() as graph:
        assert (graph.nodes, len(driver.launches)) == (5, before)
        graph.replay()
        assert [launch.arguments[:3] for launch in driver.launches[before:]] == [addresses] * 5
        assert owned(*graph.take_output()[:3])


def test_a_chain_gives_its_tensors_to_others(gpu: Gpu) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)

    def both(found: tuple[Any, ...]) -> Any:
        return zip_ops(module.ops.add(*found), as_op(1)).first()

    def cut(found: tuple[Any, ...]) -> Any:
        return module.ops.add(
            found[0].reshape(512), found[1].reshape(2, 256).reshape(512), found[2]
        )

    result = module.ops.add(z, x, y)
    for step in (both, cut, both, cut):
        result = chained(result, 3, lambda found: module.ops.add(*found)).then(step)  # type: ignore[assignment]
    found = result.sync()
    assert [one.storage for one in found[:3]] == [z.storage, x.storage, y.storage]
    assert owned(*found[:3])


def test_threads_that_take_the_same_tensors(gpu: Gpu) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    taken: list[Any] = []

    def take() -> None:
        for _ in range(200):
            try:
                taken.append(module.ops.add(z, x, y))
            except UseAfterMoveError:
                continue

    at_once(*[take] * 4)
    assert len(taken) == 1
    taken.clear()
    assert owned(z, x, y)


@pytest.mark.parametrize("given", [None, 3, "op", as_op])
def test_a_step_among_launches_that_gives_no_op_is_named(gpu: Gpu, given: Any) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    op = chained(module.ops.add(z, x, y), 5, lambda found: module.ops.add(*found))
    op, line = op.then(lambda _: given), sys._getframe().f_lineno
    with pytest.raises(UsageError, match="the function of `then` gave a ") as caught:
        op.then(lambda found: module.ops.add(*found)).sync()
    assert str(caught.value.op) == f"then, created at {__file__}:{line}"
    assert owned(z, x, y)


def test_an_error_of_a_function_among_launches_is_named_by_its_own_step(gpu: Gpu) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)

    def fails(_: object) -> Any:
        raise UsageError("no")

    op = chained(module.ops.add(z, x, y), 5, lambda found: module.ops.add(*found))
    op, line = op.then(fails), sys._getframe().f_lineno
    with pytest.raises(UsageError) as caught:
        op.then(lambda found: module.ops.add(*found)).sync()
    assert str(caught.value.op) == f"then, created at {__file__}:{line}"
    assert owned(z, x, y)
