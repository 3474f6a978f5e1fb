"""A claim that ends while its op is still being enqueued: who writes the tensor from then on, on
another thread, comes after the op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.runtime_samples import ADD
from tests.waiting import at_once
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import DeviceOp, Module, Stream, Tensor, api

SIZE = 64


KERNELS = (ADD,)


def tensor() -> Tensor:
    return api.from_host(np.ones(SIZE, np.float32)).sync()


def order(driver: FakeDriver, one: Stream, two: Stream) -> list[tuple[str, int | None]]:
    return [
        (step.call, step.stream)
        for step in driver.steps
        if step.stream in (one.handle, two.handle) and step.call in ("record", "wait")
    ]


@pytest.mark.parametrize("what", ["to_host", "dup", "memcpy", "view", "borrow", "share"])
def test_a_later_writer_waits_for_a_reader_that_is_still_being_enqueued(
    gpu: tuple[Module, FakeDriver], what: str
) -> None:
    module, driver = gpu
    t, z, y = tensor(), tensor(), tensor()
    shared = t.share() if what == "share" else None
    make: dict[str, Callable[[], DeviceOp[Any]]] = {
        "to_host": lambda: api.to_host(t),
        "dup": lambda: api.dup(t),
        "memcpy": lambda: api.memcpy(z, t),
        "view": lambda: module.ops.add(z, t[:], y),
        "borrow": lambda: module.ops.add(z, t.borrow(), y),
        "share": lambda: module.ops.add(z, shared, y),
    }
    with Stream(0, driver=driver) as one, Stream(0, driver=driver) as two:

        def write(_: object) -> None:
            owned = t if shared is None else shared.try_unwrap()
            driver.steps.clear()
            at_once(lambda: api.memcpy(owned, np.zeros(SIZE, np.float32)).enqueue_on(two))

        make[what]().map(lambda found: found if what == "share" else None).map(write).enqueue_on(
            one
        )
        found = order(driver, one, two)
        assert found[:2] == [("record", one.handle), ("wait", two.handle)]
