"""Tensors and chains of a kernel on a double of the driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import DeviceOp, Module
from tilec_runtime.tensors.tensor import Tensor

Gpu = tuple[Module, FakeDriver]


def on(driver: FakeDriver, *extents: int) -> list[Tensor]:
    return [
        Tensor.uninitialized((extent,), "f32", driver=driver, ordinal=0, stream=0)
        for extent in extents
    ]


def owned(*tensors: Tensor) -> bool:
    """Whether all of them own their memory, and nobody else claims it."""
    for one in tensors:
        one.borrow_mut().release()
    return True


def chained(first: DeviceOp[Any], steps: int, function: Callable[[Any], Any]) -> DeviceOp[Any]:
    for _ in range(steps):
        first = first.then(function)
    return first
