"""What moves into an op, and into the ops that it is made of, is the caller's again once that has run,
failed, or was dropped; a borrow has ended then.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from tests.runtime_samples import slot
from tests.unit.runtime.ops.device_samples import Held
from tests.waiting import at_once
from tilec.testing.fake_driver import FakeDriver, FakeKernel
from tilec_runtime import (
    AsyncKernelLaunch,
    CudaGraph,
    Device,
    DeviceOp,
    as_op,
    load_module_from_ptx,
    use_device,
    zip_ops,
)
from tilec_runtime.device import lines
from tilec_runtime.errors import (
    BorrowError,
    LaunchError,
    LaunchLimitError,
    RequirementError,
    UseAfterMoveError,
)
from tilec_runtime.tensors import lease
from tilec_runtime.tensors.partition import Partition
from tilec_runtime.tensors.tensor import Tensor


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
def test_a_launch_that_is_refused_gives_its_arguments_back(
    held: Held, run: Callable[[DeviceOp[Any]], Any]
) -> None:
    z, x, y = held.tensor(), held.tensor(3), held.tensor(count=9)
    with pytest.raises(RequirementError, match=r"y\.shape"):
        run(held.module.ops.add(z, x, y))
    assert owned(z, x, y)
    held.module.ops.add(z, x, held.tensor(4)).sync()  # tried again with what fits
    assert held.runs == 1


@pytest.mark.parametrize("run", RUNS[::3])
def test_an_error_of_the_device_gives_arguments_back(
    held: Held, run: Callable[[DeviceOp[Any]], Any]
) -> None:
    z, x, y = held.tensor(), held.tensor(), held.tensor()
    held.fail = True
    with pytest.raises(OSError, match="the kernel failed"):
        run(held.module.ops.add(z, x, y))
    assert owned(z, x, y)


def test_partitions_come_back_as_they_were(held: Held) -> None:
    z, x, y = (
        held.tensor(count=1000).partition(256),
        held.tensor(count=1000),
        held.tensor(count=1000),
    )
    mapped = held.tensor(count=1000).partition(256).map(3)
    for part in (z, mapped):
        with pytest.raises(LaunchLimitError, match=r"\(7, 1, 1\)"):
            held.module.ops.add(part, x, y).grid(7).sync()
        assert part.ptr == part.base.ptr
        held.module.ops.add(part, x, y)  # dropped
    assert owned(z, mapped, x, y)


def test_a_dropped_op_gives_back_what_moved_in(held: Held) -> None:
    z, x, y = held.tensor(), held.tensor(), held.tensor()
    op = held.module.ops.add(z, x, y)
    with pytest.raises(UseAfterMoveError, match="moved into the launch of add"):
        z.share()
    del op
    assert owned(z, x, y)
    for make in (
        lambda op: zip_ops(op, as_op(1)),
        lambda op: op.then(as_op),
        lambda op: op.shared(),
        lambda op: op.unzip(4),
    ):
        made = make(held.module.ops.add(z, x, y))
        with pytest.raises(UseAfterMoveError):
            z.share()
        del made
        gc.collect()
        assert owned(z, x, y)


def test_launches_without_a_bundle() -> None:
    driver = FakeDriver(kernels={"scale": FakeKernel(abi=(slot("ptr", "x.ptr"), slot("i32", "n")))})
    device = Device(0, driver=driver)
    module = load_module_from_ptx(".version 8.0\n.target sm_80\n", device)
    function = module.function("scale", ("ptr", "i32"))
    with use_device(device):
        x = Tensor.uninitialized((8,), "f32", driver=driver, ordinal=0, stream=0)
        launch = AsyncKernelLaunch(function).push_arg(x)
        with pytest.raises(UseAfterMoveError):
            x.share()
        with pytest.raises(LaunchError, match="no launch configuration"):
            launch.sync()
        assert owned(x)  # with the op still there
        AsyncKernelLaunch(function).push_arg(x)  # dropped
        assert owned(x)


def test_the_collector_waits_for_no_lock(held: Held) -> None:
    """An op may be dropped by the collector, on a thread that holds what another one waits for."""
    z, x, y = held.tensor(), held.tensor(), held.tensor()
    ops: list[Any] = [
        held.module.ops.add(z, x, y),
        held.module.ops.add(held.tensor().partition(256), held.tensor(), held.tensor()),
    ]
    with lease.LOCK, lines._LOCK:
        at_once(ops.clear)
    assert owned(z, x, y)


@pytest.mark.parametrize("run", RUNS)
def test_results_are_the_arguments(held: Held, run: Callable[[DeviceOp[Any]], Any]) -> None:
    z, x, p = held.tensor(), held.tensor(), held.tensor().partition(4)
    found = run(held.module.ops.add(p, z, x))
    assert found[:3] == (p, z, x)
    assert z.to_host().tolist() == [1.0] * 4
    assert p.unpartition().to_host().tolist() == [2.0] * 4


def recorded(held: Held, op: DeviceOp[Any]) -> list[Any]:
    with CudaGraph.scope(held.device.new_stream()) as scope:
        return [scope.record(op), scope]


def kept_future(held: Held, op: DeviceOp[Any]) -> list[Any]:
    future = op.future()
    return [future, future.result()]


def failed(held: Held, op: DeviceOp[Any]) -> list[Any]:
    with pytest.raises(RequirementError) as caught:
        op.sync()
    return [caught]


@pytest.mark.parametrize("end", [kept_future, recorded, failed])
def test_borrows_end_with_the_op(held: Held, end: Callable[[Held, DeviceOp[Any]], Any]) -> None:
    z, x, y = held.tensor(), held.tensor(), held.tensor(count=5 if end is failed else 4)
    op = held.module.ops.add(z.borrow_mut(), x.borrow(), y.borrow())
    with pytest.raises(BorrowError):
        z.to_host()
    kept = end(held, op)
    del op
    z.to_host()
    x.borrow_mut().release()
    del kept


def test_steps_that_use_a_tensor_up_do_so_when_the_chain_fails_too(held: Held) -> None:
    z, x, y = held.tensor(), held.tensor(), held.tensor()

    def fails(_: object) -> DeviceOp[int]:
        raise KeyError

    with pytest.raises(KeyError):
        held.module.ops.add(z, x, y).first().reshape(2, 2).then(fails).sync()
    with pytest.raises(UseAfterMoveError, match="it was moved into reshape"):
        z.to_host()
    as_op(x.borrow()).sync()
