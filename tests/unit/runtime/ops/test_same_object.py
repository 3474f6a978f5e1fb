"""A tensor that an op was given is the caller's again once that has run, failed, or was dropped; a
borrow has ended then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.ops.device_samples import CPU, Held
from tilec_runtime import CudaGraph, DeviceOp, Tensor, as_op
from tilec_runtime.errors import BorrowError, RequirementError, UseAfterMoveError


def tensor(held: Held, number: float = 1, count: int = 8) -> Tensor:
    made = Tensor.uninitialized((count,), "f32", driver=held.driver, ordinal=CPU, stream=0)
    np.asarray(made)[...] = number
    return made


# How an op is run to its end.
RUNS: tuple[Callable[[DeviceOp[Any]], Any], ...] = (
    lambda op: op.sync(),
    lambda op: op.sync_on(0),
    lambda op: op.enqueue_on(0),
    lambda op: op.future().result(),
)


@pytest.mark.parametrize("run", RUNS)
def test_results_are_the_arguments(held: Held, run: Callable[[DeviceOp[Any]], Any]) -> None:
    z, x, p = tensor(held), tensor(held), tensor(held).partition(8)
    found = run(held.module.ops.add(p, z, x))
    assert found[:3] == (p, z, x)
    assert z.to_host().tolist() == [1.0] * 8
    assert p.unpartition().to_host().tolist() == [2.0] * 8


def test_an_op_that_has_not_run_has_its_tensors(held: Held) -> None:
    z, x, y = tensor(held), tensor(held), tensor(held)
    op = held.module.ops.add(z, x, y)
    for use in (z.share, x.to_host, y.borrow, lambda: z.ptr, lambda: held.module.ops.add(z, x, y)):
        with pytest.raises(
            UseAfterMoveError, match="cannot use the tensor: it was moved into the launch of add"
        ):
            use()
    with pytest.raises(UseAfterMoveError, match="moved into the launch of add"):
        held.module.add(tensor(held), x, y)
    op.sync()
    z.share()


@pytest.mark.parametrize("how", ["kept future", "record", "graph", "failed", "dropped"])
def test_borrows_end_with_the_op(held: Held, how: str) -> None:
    z, x, y = tensor(held), tensor(held), tensor(held)
    short = tensor(held, count=9) if how == "failed" else y
    op = held.module.ops.add(z.borrow_mut(), x.borrow(), short.borrow())
    with pytest.raises(BorrowError):
        z.to_host()
    kept: list[Any] = []
    if how == "kept future":
        kept = [op.future()]
        kept[0].result()
    elif how == "record":
        with CudaGraph.scope(held.device.new_stream()) as s:
            kept = [s.record(op), s]
    elif how == "graph":
        kept = [op.graph()]
        kept[0].replay()
    elif how == "failed":
        with pytest.raises(RequirementError) as caught:
            op.sync()
        kept = [caught]
    del op
    z.to_host()
    x.borrow_mut().release()
    del kept


def test_steps_that_use_a_tensor_up_do_so_when_the_chain_fails_too(held: Held) -> None:
    z, x, y = tensor(held), tensor(held), tensor(held)

    def fails(_: object) -> DeviceOp[int]:
        raise KeyError

    with pytest.raises(KeyError):
        held.module.ops.add(z, x, y).first().reshape(2, 4).then(fails).sync()
    with pytest.raises(UseAfterMoveError, match="it was moved into reshape"):
        z.to_host()
    as_op(x.borrow()).sync()
