"""Methods of tensors on ops that give them: lazily, on one stream, with errors that say which step
and where.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.ops.device_samples import Held
from tilec_runtime import DeviceOp, Partition, SharedTensor, Tensor, TensorView, api, as_op
from tilec_runtime.errors import TensorError, UsageError

HERE = "test_tensor_steps.py"


def counting(count: int = 12) -> DeviceOp[Tensor]:
    return api.from_host(np.arange(count, dtype=np.float32))


def untyped(op: DeviceOp[Any]) -> Any:
    """What type checkers refuse is refused at run time too."""
    return op


@pytest.mark.parametrize(
    ("make", "kind", "shape"),
    [
        (lambda: counting().reshape(3, -1), Tensor, (3, 4)),
        (lambda: counting().reinterpret("u8", 6, 8), Tensor, (6, 8)),
        (lambda: counting().view(2, 6), TensorView, (2, 6)),
        (lambda: counting().share().reshape(4, 3), SharedTensor, (4, 3)),
        (lambda: counting().reshape(3, 4).partition(1, 2), Partition, (3, 4)),
        (lambda: counting().partition(5).unpartition(), Tensor, (12,)),
        (lambda: counting().partition_prefix(5), Partition, (12,)),
        (lambda: counting().share().try_partition(4), Partition, (12,)),
    ],
)
def test_shapes_of_a_result_that_is_not_there_yet(
    held: Held, make: Callable[[], DeviceOp[Any]], kind: type, shape: tuple[int, ...]
) -> None:
    found = make().sync()
    assert (type(found), found.shape) == (kind, shape)
    assert found.to_host().ravel().view(np.float32).tolist() == list(range(12)), "the same memory"


@pytest.mark.parametrize(
    ("make", "verb", "fix"),
    [
        (lambda: untyped(as_op(3)).reshape(3), "reshape", "use `map`"),
        (lambda: untyped(as_op((1, 2))).to_host(), "to_host", r"first\(\), last\(\) or unzip\(\)"),
        (lambda: untyped(as_op("a")).dup(), "dup", "use `map`"),
        (lambda: untyped(counting()).unpartition(), "unpartition", "use `map`"),
        (lambda: untyped(counting().share()).share(), "share", "use `map`"),
        (lambda: counting().share().partition(3), "partition", "use `map`"),
        (lambda: untyped(as_op(np.zeros(3))).view(3), "view", "use `map`"),
    ],
)
def test_a_result_that_is_no_such_tensor(
    held: Held, make: Callable[[], DeviceOp[Any]], verb: str, fix: str
) -> None:
    op = make()  # nothing is known of the result yet
    with pytest.raises(
        UsageError,
        match=rf"^`{verb}` needs an op that gives a tensor which has it, and this one gave a \w+\n  fix: .*{fix}",
    ) as caught:
        op.sync()
    assert HERE in caught.value.op
    assert verb in caught.value.op


def test_what_does_not_fit_is_said_when_it_runs(held: Held) -> None:
    op = counting().reshape(5, 5)
    with pytest.raises(
        TensorError, match=r"^a tensor of shape \(12,\) has 12 elements, and shape \(5, 5\) has 25"
    ) as caught:
        op.sync()
    assert caught.value.op.startswith("reshape, created at")
    with pytest.raises(TensorError, match="out is an array of float64"):
        counting().to_host(out=np.zeros(12)).sync()
