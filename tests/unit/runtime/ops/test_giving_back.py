"""An op that fails loses nothing: what moved into it, and into the ops that it is made of, is back with whom it came from."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from tests.runtime_samples import slot
from tests.unit.runtime.ops.device_samples import CPU, Held
from tests.waiting import PATIENCE
from tilec.testing.fake_driver import FakeDriver, FakeKernel
from tilec_runtime import AsyncKernelLaunch, Device, DeviceOp, load_module_from_ptx, use_device, value, with_context, zip_ops
from tilec_runtime.errors import LaunchError, LaunchLimitError, RequirementError, UseAfterMoveError
from tilec_runtime.ops.holding import hold_all
from tilec_runtime.tensors.lease import holder
from tilec_runtime.tensors.partition import Partition
from tilec_runtime.tensors.tensor import Tensor


def tensor(held: Held, count: int = 8, number: float = 0) -> Tensor:
    made = Tensor.uninitialized((count,), "f32", driver=held.driver, ordinal=CPU, stream=0)
    np.asarray(made)[...] = number
    return made


def owned(*tensors: Tensor | Partition[Tensor]) -> bool:
    """Whether all of them own their memory, and nobody else claims it."""
    for one in tensors:
        if isinstance(one, Partition):
            one.unpartition().borrow_mut().release()
        else:
            one.borrow_mut().release()
    return True


# How an op is run, and what comes of it where that failed.
RUNS: tuple[Callable[[DeviceOp[Any]], Any], ...] = (
    lambda op: op.sync(),
    lambda op: op.sync_on(0),
    lambda op: op.enqueue_on(0),
    lambda op: op.future().result(),
)


@pytest.mark.parametrize("run", RUNS)
def test_a_launch_that_is_refused_gives_its_arguments_back(held: Held, run: Callable[[DeviceOp[Any]], Any]) -> None:
    z, x, y = tensor(held), tensor(held, number=3), tensor(held, 9)
    with pytest.raises(RequirementError, match=r"y\.shape"):
        run(held.module.lazy.add(z, x, y))
    assert owned(z, x, y)
    held.module.lazy.add(z, x, tensor(held, number=4)).sync()  # tried again with what fits
    assert held.runs == 1


def test_an_interrupt_while_arguments_move_in_gives_them_back(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    z, x, y = tensor(held), tensor(held), tensor(held)
    move = Tensor.move

    def interrupted(self: Tensor, who: Any) -> Tensor:
        if self is y:
            raise KeyboardInterrupt
        return move(self, who)

    with monkeypatch.context() as patch:
        patch.setattr(Tensor, "move", interrupted)
        with pytest.raises(KeyboardInterrupt):
            hold_all([(z, True), (x, False), (y, False)], holder("the launch"))
    assert owned(z, x, y)


def test_an_error_of_the_device_gives_them_back_too(held: Held) -> None:
    z, x, y = tensor(held), tensor(held), tensor(held)
    for run in (RUNS[0], RUNS[3]):
        held.fail = True
        with pytest.raises(OSError, match="the kernel failed"):
            run(held.module.lazy.add(z, x, y))
        held.fail = False
        assert owned(z, x, y)


def test_partitions_come_back_as_they_were(held: Held) -> None:
    z, x, y = tensor(held, 1000).partition(256), tensor(held, 1000), tensor(held, 1000)
    mapped = tensor(held, 1000).partition(256).map(3)
    for part in (z, mapped):
        with pytest.raises(LaunchLimitError, match=r"\(7, 1, 1\)"):
            held.module.lazy.add(part, x, y).grid(7).sync()
        assert part.ptr == part.base.ptr
        held.module.lazy.add(part, x, y)  # dropped
    assert owned(z, mapped, x, y)


def test_a_dropped_op_gives_back_what_moved_in(held: Held) -> None:
    z, x, y = tensor(held), tensor(held), tensor(held)
    op = held.module.lazy.add(z, x, y)
    with pytest.raises(UseAfterMoveError, match="moved into the launch of add"):
        z.share()
    del op
    assert owned(z, x, y)
    for make in (lambda op: zip_ops(op, value(1)), lambda op: op.then(value), lambda op: op.shared(), lambda op: op.unzip(4)):
        made = make(held.module.lazy.add(z, x, y))
        with pytest.raises(UseAfterMoveError):
            z.share()
        del made
        gc.collect()
        assert owned(z, x, y)


def test_borrows_end_with_the_failure(held: Held) -> None:
    """Also while the error is looked at, whose traceback has the op's frames."""
    z, x, y = tensor(held), tensor(held), tensor(held, 9)
    with z.borrow_mut() as out, x.borrow() as view:
        try:
            held.module.lazy.add(out, view, y).sync()
        except RequirementError:
            held.module.lazy.add(out, view, tensor(held)).sync()
        else:
            raise AssertionError
    assert owned(z, x, y)


def test_zip_gives_back_what_ran_and_what_did_not(held: Held) -> None:
    add = held.module.lazy.add
    for bad in range(3):
        good = [[tensor(held), tensor(held, number=place), tensor(held, number=1)] for place in range(3)]
        good[bad][2] = tensor(held, 9)
        runs = held.runs
        try:
            zip_ops(*[add(*arguments) for arguments in good]).sync()
        except RequirementError:
            assert owned(*[one for arguments in good for one in arguments])  # with the error's traceback alive
        else:
            raise AssertionError
        held.device.sync()
        assert held.runs - runs == bad
        assert [np.asarray(z)[0] for z, _, _ in good[:bad]] == [place + 1 for place in range(bad)]


def test_a_chain_gives_back_what_its_first_op_took(held: Held) -> None:
    add = held.module.lazy.add
    z, x, y = tensor(held), tensor(held), tensor(held, 9)
    with pytest.raises(RequirementError):
        add(z, x, y).then(lambda found: value(found)).sync()
    assert owned(z, x, y)


def test_a_chain_gives_back_through_all_its_steps(held: Held) -> None:
    add = held.module.lazy.add
    z, x, y, other, short = tensor(held), tensor(held, number=3), tensor(held, number=4), tensor(held, number=1), tensor(held, 9)

    def again(found: tuple[Any, ...]) -> DeviceOp[Any]:
        return add(found[1], found[0], other)  # x = z + other

    def refused(found: tuple[Any, ...]) -> DeviceOp[Any]:
        return add(found[0], found[1], short)

    with pytest.raises(RequirementError):
        add(z, x, y).then(again).then(refused).sync()
    assert owned(z, x, y, other, short)
    held.device.sync()
    assert (np.asarray(z)[0], np.asarray(x)[0]) == (7, 8)


def test_steps_that_use_tensors_up_are_undone(held: Held) -> None:
    add = held.module.lazy.add
    steps: tuple[Callable[[DeviceOp[Any]], DeviceOp[Any]], ...] = (
        lambda op: op.reshape(2, 4),
        lambda op: op.reinterpret("u32"),
        lambda op: op.partition(4),
        lambda op: op.partition_prefix(4).unpartition(),
        lambda op: op.share(),
        lambda op: op.reshape(-1).reinterpret("i32").partition(8).unpartition().share(),
    )

    def fails(_: object) -> DeviceOp[int]:
        raise KeyError

    for step in steps:
        z, x, y = tensor(held, number=7), tensor(held), tensor(held)
        with pytest.raises(KeyError):
            step(add(z, x, y).first()).then(fails).sync()
        assert owned(z, x, y)
        assert (z.shape, z.dtype) == ((8,), "f32")
        made = step(add(z, x, y).first()).sync()
        with pytest.raises(UseAfterMoveError):
            z.share()
        assert made.storage is z.storage


def test_a_share_that_others_have_does_not_come_back(held: Held) -> None:
    z, x, y = tensor(held), tensor(held), tensor(held)
    kept: list[Any] = []

    def keeps(shared: Any) -> None:
        kept.append(shared.clone())
        raise KeyError

    with pytest.raises(KeyError):
        held.module.lazy.add(z, x, y).first().share().map(keeps).sync()
    with pytest.raises(UseAfterMoveError):
        z.share()
    gc.collect()
    kept[0].borrow().release()


def test_an_error_of_a_function_gives_back_too(held: Held) -> None:
    z, x, y = tensor(held), tensor(held), tensor(held)

    def fails(_: object) -> DeviceOp[int]:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        held.module.lazy.add(z, x, y).then(fails).sync()
    assert owned(z, x, y)


def test_arguments_that_are_ops(held: Held) -> None:
    """An op that ran, one that was refused, and one that never came to run."""
    add = held.module.lazy.add
    first, second, third = [[tensor(held), tensor(held), tensor(held)] for _ in range(3)]
    second[2] = tensor(held, 9)
    op = add(add(*first).first(), add(*second).first(), add(*third).first())
    try:
        op.sync()
    except RequirementError:
        assert owned(*first, *second, *third)
    else:
        raise AssertionError


def test_who_takes_care_of_a_refusal_goes_on(held: Held) -> None:
    """An op that is run as a part of another one gives back at once."""
    add = held.module.lazy.add
    z, x, y, short = tensor(held), tensor(held, number=2), tensor(held, number=1), tensor(held, 9)

    def tries(ctx: Any) -> Any:
        try:
            return ctx.run(add(z, x, short))
        except LaunchError:
            return ctx.run(add(z, x, y))

    out, *_ = with_context(tries).sync()
    assert np.asarray(out)[0] == 3
    with pytest.raises(UseAfterMoveError):
        z.share()
    assert owned(out, short)


def test_results_that_others_have_stay_with_them(held: Held) -> None:
    add = held.module.lazy.add
    z, x, y, short = tensor(held), tensor(held), tensor(held), tensor(held, 9)
    first, second, _, _ = cast("DeviceOp[tuple[Any, Any, Any, Any]]", add(z, x, y)).unzip(4)
    with pytest.raises(RequirementError):
        add(tensor(held), tensor(held), short, first.map(lambda _: 1.0)).sync()
    assert type(second.sync()) is Tensor
    with pytest.raises(UseAfterMoveError, match="moved into the launch of add"):
        x.share()


def test_what_went_elsewhere_does_not_come_back(held: Held) -> None:
    z, x, y = tensor(held), tensor(held), tensor(held)
    kept: list[Any] = []

    def keeps(found: tuple[Any, ...]) -> None:
        kept.extend((found[0].reshape(2, 4), found[1]))
        raise KeyError

    with pytest.raises(KeyError):
        held.module.lazy.add(z, x, y).map(keeps).sync()
    with pytest.raises(UseAfterMoveError):
        z.share()
    assert owned(kept[0], x, y)
    with pytest.raises(UseAfterMoveError, match="moved into the tensor that was passed to the op, when that failed"):
        kept[1].share()


def test_results_belong_to_nobody_else(held: Held) -> None:
    z, x, y = tensor(held), tensor(held), tensor(held)
    out, *_ = held.module.lazy.add(z, x, y).sync()
    gc.collect()
    with pytest.raises(UseAfterMoveError):
        z.share()
    assert owned(out)


def test_launches_without_a_bundle() -> None:
    driver = FakeDriver(kernels={"scale": FakeKernel(abi=(slot("ptr", "x.ptr"), slot("i32", "n")))})
    device = Device(0, driver=driver)
    function = load_module_from_ptx(".version 8.0\n.target sm_80\n", device).function("scale", ("ptr", "i32"))
    with use_device(device):
        x = Tensor.uninitialized((8,), "f32", driver=driver, ordinal=0, stream=0)
        launch = AsyncKernelLaunch(function).push_arg(x)
        with pytest.raises(UseAfterMoveError):
            x.share()
        with pytest.raises(LaunchError, match="no launch configuration"):
            launch.sync()
        assert owned(x)  # with the op still there
        dropped = AsyncKernelLaunch(function).push_arg(x)
        del dropped
        assert owned(x)


def test_the_collector_waits_for_no_lock(held: Held) -> None:
    """An op may be dropped by the collector, on a thread that holds what another one waits for."""
    import threading

    z, x, y = tensor(held), tensor(held), tensor(held)
    ops: list[Any] = [held.module.lazy.add(z, x, y), held.module.lazy.add(tensor(held).partition(256), tensor(held), tensor(held))]
    done = threading.Event()

    def drop() -> None:
        while ops:
            ops.pop()
        done.set()

    with z.storage.lock, x.storage.lock, y.storage.lock:
        thread = threading.Thread(target=drop, daemon=True)
        thread.start()
        assert done.wait(PATIENCE)
    thread.join(PATIENCE)
    assert owned(z, x, y)
