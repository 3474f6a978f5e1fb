"""Methods of tensors on ops that give them: lazily, on one stream, with errors that say which step
and where.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.ops.device_samples import Held
from tilec_runtime import DeviceOp, SharedTensor, Tensor, TensorView, api, as_op
from tilec_runtime.errors import TensorError, UsageError

HERE = "test_tensor_steps.py"


def counting(count: int = 12) -> DeviceOp[Tensor]:
    return api.from_host(np.arange(count, dtype=np.float32))


def untyped(op: DeviceOp[Any]) -> Any:
    """What type checkers refuse is refused at run time too."""
    return op


def test_shapes_of_a_result_that_is_not_there_yet(held: Held) -> None:
    t = counting().reshape(3, -1).sync()
    assert (type(t), t.shape) == (Tensor, (3, 4))
    assert counting().reinterpret("u8", 6, 8).sync().shape == (6, 8)
    view = counting().view(2, 6).sync()
    assert (type(view), view.shape) == (TensorView, (2, 6))
    assert view.to_host().tolist() == np.arange(12).reshape(2, 6).tolist(), "it keeps the memory"
    s = counting().share().reshape(4, 3).sync()
    assert (type(s), s.shape, s.owners) == (SharedTensor, (4, 3), 1)


def test_partitions_and_back(held: Held) -> None:
    p = counting().reshape(3, 4).partition(1, 2).sync()
    assert p.grid == (3, 2)
    assert as_op(p).unpartition().sync().shape == (3, 4)
    prefix = counting().partition_prefix(5).sync()
    assert (prefix.prefix, prefix.grid) == (True, (3,))
    assert counting().share().try_partition(4).sync().grid == (3,)
    assert (
        counting().shared().try_partition(4).map(lambda _: 1).name
        == "from_host.shared.try_partition.map"
    )


def test_into_an_array(held: Held) -> None:
    out = np.zeros(12, np.float32)
    assert counting().to_host(out=out).sync() is out
    assert out.tolist() == list(range(12))


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
