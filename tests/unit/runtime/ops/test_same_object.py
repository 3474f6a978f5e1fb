"""A tensor that an op was given is the caller's again once that has run, failed, or was dropped; a
borrow has ended then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.runtime.ops.device_samples import Held
from tilec_runtime import CudaGraph, DeviceOp, as_op
from tilec_runtime.errors import BorrowError, RequirementError, UseAfterMoveError

# How an op is run to its end.
RUNS: tuple[Callable[[DeviceOp[Any]], Any], ...] = (
    lambda op: op.sync(),
    lambda op: op.sync_on(0),
    lambda op: op.enqueue_on(0),
    lambda op: op.future().result(),
)


@pytest.mark.parametrize("run", RUNS)
def test_results_are_the_arguments(held: Held, run: Callable[[DeviceOp[Any]], Any]) -> None:
    z, x, p = held.tensor(), held.tensor(), held.tensor().partition(4)
    found = run(held.module.ops.add(p, z, x))
    assert found[:3] == (p, z, x)
    assert z.to_host().tolist() == [1.0] * 4
    assert p.unpartition().to_host().tolist() == [2.0] * 4


def test_an_op_that_has_not_run_has_its_tensors(held: Held) -> None:
    z, x, y = held.tensor(), held.tensor(), held.tensor()
    op = held.module.ops.add(z, x, y)
    for use in (z.share, x.to_host, y.borrow, lambda: z.ptr, lambda: held.module.ops.add(z, x, y)):
        with pytest.raises(
            UseAfterMoveError, match="cannot use the tensor: it was moved into the launch of add"
        ):
            use()
    with pytest.raises(UseAfterMoveError, match="moved into the launch of add"):
        held.module.add(held.tensor(), x, y)
    op.sync()
    z.share()


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
