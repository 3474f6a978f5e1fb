"""Steps of a chain whose tensors nobody else has: the same objects go through, and whoever keeps one sees what became of it."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.runtime.ops.chain_samples import Gpu, chained, on, owned
from tests.waiting import at_once
from tilec_runtime import DeviceOp, value, with_context, zip_ops
from tilec_runtime.errors import BorrowError, DriverError, UseAfterMoveError, UsedOpError
from tilec_runtime.tensors.tensor import Tensor


@pytest.mark.parametrize("keep", [lambda found: found, lambda found: found[:3], lambda found: found[0], lambda found: lambda: found[1]])
def test_who_keeps_what_a_step_got_cannot_use_it_any_more(gpu: Gpu, keep: Callable[[Any], Any]) -> None:
    module, driver = gpu
    kept: list[Any] = []
    lines: list[int] = []

    def again(found: tuple[Any, ...]) -> Any:
        kept.append(keep(found))
        lines.append(sys._getframe().f_lineno + 1)
        return module.lazy.add(*found)

    result = chained(module.lazy.add(*on(driver, 512, 512, 512)), 6, again).sync()
    for one, line in zip(kept, lines, strict=True):
        got = one if isinstance(one, tuple) else (one.__closure__[0].cell_contents[1],) if callable(one) else (one,)
        for tensor in got[:3]:
            with pytest.raises(
                UseAfterMoveError,
                match=rf"the launch of add .* cannot use the tensor: it was moved into the launch of add \({__file__}:{line}\)",
            ):
                module.lazy.add(tensor, *on(driver, 512, 512))
    assert owned(*result[:3])
    assert len({one.storage.address for one in result[:3]}) == 3


def test_use_between_the_op_and_its_return(gpu: Gpu) -> None:
    module, driver = gpu

    def uses(found: tuple[Any, ...]) -> Any:
        op = module.lazy.add(*found)
        with pytest.raises(UseAfterMoveError):
            found[0].share()
        with pytest.raises(UseAfterMoveError):
            module.lazy.add(*found)
        return op

    z, x, y, _ = chained(module.lazy.add(*on(driver, 512, 512, 512)), 5, uses).sync()
    assert owned(z, x, y)
    assert len(driver.launches) == 6


def test_ops_that_a_step_makes_and_drops(gpu: Gpu) -> None:
    module, driver = gpu

    def twice(found: tuple[Any, ...]) -> Any:
        module.lazy.add(*found)  # dropped: it gives its tensors back
        return module.lazy.add(*found)

    z, x, y, _ = chained(module.lazy.add(*on(driver, 512, 512, 512)), 5, twice).sync()
    assert owned(z, x, y)
    assert len(driver.launches) == 6


def test_an_op_that_somebody_keeps_stays_used(gpu: Gpu) -> None:
    module, driver = gpu
    kept: list[Any] = []
    seen: list[int] = []

    def keeps(found: tuple[Any, ...]) -> Any:
        op = module.lazy.add(*found)
        seen.append(id(op))
        if len(seen) % 2:
            kept.append(op)
        return op

    chained(module.lazy.add(*on(driver, 512, 512, 512)), 8, keeps).sync()
    assert len({id(op) for op in kept}) == 4
    for op in kept:
        with pytest.raises(UsedOpError, match="executed as a part of another op"):
            op.sync()


def test_a_used_op_that_a_step_gives_is_refused(gpu: Gpu) -> None:
    module, driver = gpu

    def spent(found: tuple[Any, ...]) -> Any:
        op = module.lazy.add(*found)
        op.then(value)
        return op

    z, x, y = on(driver, 512, 512, 512)
    with pytest.raises(UsedOpError, match="moved into then"):
        chained(module.lazy.add(z, x, y), 3, lambda found: module.lazy.add(*found)).then(spent).sync()
    assert len(driver.launches) == 4


def test_borrows_are_in_the_way_of_a_step(gpu: Gpu) -> None:
    module, driver = gpu

    def borrows(found: tuple[Any, ...]) -> Any:
        with found[1].borrow(), pytest.raises(BorrowError):
            module.lazy.add(*found)
        with pytest.raises(UseAfterMoveError, match="twice"):
            module.lazy.add(found[0], found[1], found[1])
        return module.lazy.add(*found)

    z, x, y, _ = chained(module.lazy.add(*on(driver, 512, 512, 512)), 5, borrows).sync()
    assert owned(z, x, y)


def test_a_launch_that_is_refused_in_the_middle_gives_everything_back(gpu: Gpu) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)

    def fails(found: tuple[Any, ...]) -> Any:
        driver.fail["launch"] = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
        return module.lazy.add(*found)

    line = fails.__code__.co_firstlineno + 2
    for _ in range(3):
        op = chained(module.lazy.add(z, x, y), 6, lambda found: module.lazy.add(*found))
        with pytest.raises(DriverError, match=rf"launch of add, created at {__file__}:{line}"):
            op.then(fails).then(lambda found: module.lazy.add(*found)).sync()
        driver.fail.clear()
        assert owned(z, x, y)
    assert chained(module.lazy.add(z, x, y), 2, lambda found: module.lazy.add(*found)).sync()[0].storage is z.storage


def test_results_that_others_have_do_not_come_back(gpu: Gpu) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    kept: list[Any] = []

    def parts(found: tuple[Any, ...]) -> Any:
        op: Any = module.lazy.add(*found)
        first, *rest = op.unzip(4)
        kept.extend(rest)
        return first

    def fails(_: object) -> Any:
        raise KeyError

    with pytest.raises(KeyError):
        chained(module.lazy.add(z, x, y), 3, lambda found: module.lazy.add(*found)).then(parts).then(fails).sync()
    theirs = kept[0].sync()
    assert owned(theirs)
    with pytest.raises(UseAfterMoveError):
        x.share()


def test_a_read_that_ends_early_orders_the_next_step_again(gpu: Gpu) -> None:
    """A launch that only borrows gives its claim up at once, and others may use the memory from then on."""
    module, driver = gpu
    out, other = on(driver, 512, 512)
    entered: list[bool] = []

    def reads(found: tuple[Any, ...]) -> Any:
        def both(ctx: Any) -> Any:
            ctx.run(module.lazy.add(out.borrow_mut(), found[0].view(512), other.view(512)))
            assert id(found[0].storage) not in ctx._touched
            return found

        return with_context(both)

    def writes(found: tuple[Any, ...]) -> DeviceOp[Any]:
        def look(ctx: Any) -> None:
            entered.append(ctx._touched[id(found[0].storage)][1])

        return with_context(look)

    op = chained(module.lazy.add(*on(driver, 512, 512, 512)), 3, lambda found: module.lazy.add(*found)).then(reads)
    op.then(lambda found: module.lazy.add(*found)).then(writes).sync()
    assert entered == [True]


def test_a_graph_of_a_chain(gpu: Gpu) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    addresses = (z.ptr, x.ptr, y.ptr)
    warm = chained(module.lazy.add(z, x, y), 4, lambda found: module.lazy.add(*found)).sync()
    before = len(driver.launches)
    with chained(module.lazy.add(*warm[:3]), 4, lambda found: module.lazy.add(*found)).graph() as graph:
        assert (graph.nodes, len(driver.launches)) == (5, before)
        with pytest.raises(UseAfterMoveError):
            warm[0].share()
        graph.replay()
        assert [launch.arguments[:3] for launch in driver.launches[before:]] == [addresses] * 5
        assert owned(*graph.take_output()[:3])


def test_a_chain_gives_its_tensors_to_others(gpu: Gpu) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)

    def both(found: tuple[Any, ...]) -> Any:
        return zip_ops(module.lazy.add(*found), value(1)).first()

    def cut(found: tuple[Any, ...]) -> Any:
        return module.lazy.add(found[0].reshape(512), found[1].reshape(2, 256).reshape(512), found[2])

    result = module.lazy.add(z, x, y)
    for step in (both, cut, both, cut):
        result = chained(result, 3, lambda found: module.lazy.add(*found)).then(step)  # type: ignore[assignment]
    found = result.sync()
    assert [one.storage for one in found[:3]] == [z.storage, x.storage, y.storage]
    assert owned(*found[:3])


@pytest.mark.parametrize("seed", range(20))
def test_whatever_steps_keep_there_is_one_owner(gpu: Gpu, seed: int) -> None:
    module, driver = gpu
    dice = random.Random(seed)
    pool = on(driver, *[512] * 5)
    mine: list[Tensor] = list(pool)
    kept: list[Any] = list(pool)

    def step(found: tuple[Any, ...]) -> Any:
        have = list(found[:3])
        if dice.random() < 0.4:
            kept.append(dice.choice([found, have[0], have[1], have]))
        if dice.random() < 0.2 and len(mine) > 3:
            have[dice.randrange(3)] = mine.pop()
        dice.shuffle(have)
        if dice.random() < 0.1:
            raise KeyError
        op = module.lazy.add(*have, dice.choice((1.0, 2.0)))
        if dice.random() < 0.2:
            kept.append(op)
        return op

    try:
        made: Any = chained(module.lazy.add(*(mine.pop() for _ in range(3))), 12, step).sync()
    except KeyError:
        made = ()
    everything = [one for one in gc.get_objects() if type(one) is Tensor and one.storage in {tensor.storage for tensor in pool}]
    owners = [one for one in everything if one._look is not None]
    assert len({one.storage for one in owners}) == len(owners)
    if not made:  # all of them are back with whom they came from
        assert owned(*pool)
    else:
        assert owned(*made[:3])


def test_threads_that_take_the_same_tensors(gpu: Gpu) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    taken: list[Any] = []

    def take() -> None:
        for _ in range(200):
            try:
                taken.append(module.lazy.add(z, x, y))
            except UseAfterMoveError:
                continue

    at_once(*[take] * 4)
    assert len(taken) == 1
    taken.clear()
    assert owned(z, x, y)
