"""Tensors that moved into an op return to the caller when the op fails or is dropped.

Random programs (tests/programs) try the rest.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.runtime.ops.device_samples import Held
from tests.waiting import at_once
from tilec_runtime import (
    DeviceOp,
    as_op,
)
from tilec_runtime.device import lines
from tilec_runtime.errors import (
    UseAfterMoveError,
)
from tilec_runtime.tensors import lease
from tilec_runtime.tensors.tensor import Tensor


def owned(*tensors: Tensor) -> bool:
    """Whether all of them own their memory, and nobody else claims it."""
    for one in tensors:
        one.borrow_mut().release()
    return True


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


def test_steps_that_use_a_tensor_up_do_so_when_the_chain_fails_too(held: Held) -> None:
    z, x, y = held.tensor(), held.tensor(), held.tensor()

    def fails(_: object) -> DeviceOp[int]:
        raise KeyError

    with pytest.raises(KeyError):
        held.module.ops.add(z, x, y).first().reshape(2, 2).then(fails).sync()
    with pytest.raises(UseAfterMoveError, match="it was moved into reshape"):
        z.to_host()
    as_op(x.borrow()).sync()
