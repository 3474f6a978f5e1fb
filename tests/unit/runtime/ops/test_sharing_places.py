"""A shared op that is refused where it would run first is as it was: whoever may run it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ones
from tests.unit.runtime.ops.device_samples import Held
from tilec_runtime import DeviceOp, api, as_op, use_device, zip_ops
from tilec_runtime.errors import (
    GraphCaptureError,
    LaunchError,
    NestedExecutionError,
    PlacementError,
)

# What allocates, or reads the host, is no part of a graph.
NEVER_CAPTURED: dict[str, Callable[[Held], DeviceOp[Any]]] = {
    "ones": lambda held: api.ones(4),
    "behind": lambda held: zip_ops(as_op(0), api.ones(4).map(lambda t: t)).last(),
    "from_host": lambda held: api.from_host(ones(4)),
    "dup": lambda held: api.dup(held.tensor()),
    "convert": lambda held: api.convert(api.ones(4, "f16").sync(), "f32"),
    "launch": lambda held: held.module.ops.add(api.zeros(4), ones(4), api.zeros(4)).first(),
    "shared": lambda held: zip_ops(api.ones(4).shared()).first(),
    "to_host": lambda held: api.to_host(held.tensor()),
}
ELSEWHERE: dict[str, Callable[[Held], DeviceOp[Any]]] = {
    "dup": NEVER_CAPTURED["dup"],
    "launch": lambda held: held.module.ops.add(
        held.tensor(), ones(4), np.zeros(4, np.float32)
    ).first(),
    "memcpy": lambda held: api.memcpy(target := held.tensor(), held.tensor()).map(lambda _: target),
}


@pytest.mark.parametrize("name", NEVER_CAPTURED)
def test_a_capture_that_refuses_it_leaves_it(held: Held, name: str) -> None:
    op = NEVER_CAPTURED[name](held).shared()
    for _ in range(2):
        with pytest.raises(GraphCaptureError, match=r"\n  op: "):
            zip_ops(op).graph_on(held.device.new_stream())
    assert np.asarray(op.sync()).tolist() == [1.0] * 4
    assert np.asarray(op.sync()).tolist() == [1.0] * 4


def test_parts_are_left_too(held: Held) -> None:
    one, other = zip_ops(api.ones(4), api.zeros(4)).unzip(2)
    with pytest.raises(GraphCaptureError):
        one.graph_on(held.device.new_stream())
    assert np.asarray(other.sync()).tolist() == [0.0] * 4


@pytest.mark.parametrize("name", ["dup", "launch", "memcpy"])
def test_another_device_that_refuses_it_leaves_it(held: Held, name: str) -> None:
    made = ELSEWHERE[name](held)
    op = made.shared()
    with use_device(Held().device), pytest.raises((PlacementError, LaunchError)):
        zip_ops(op).sync()
    assert np.asarray(op.sync()).tolist() == [1.0] * 4


def test_an_execution_around_it_leaves_it(held: Held) -> None:
    op = api.ones(4).shared()
    with pytest.raises(NestedExecutionError):
        as_op(1).map(lambda _: op.sync()).sync()
    with pytest.raises(NestedExecutionError):
        as_op(1).map(lambda _: op.graph()).sync()
    assert np.asarray(op.sync()).tolist() == [1.0] * 4
