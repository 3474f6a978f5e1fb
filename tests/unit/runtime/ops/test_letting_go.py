"""Claims, memory and errors end when they should: also while somebody looks at an error, keeps it,
or the device is not done.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ones
from tests.unit.runtime.ops.device_samples import Held, Thing
from tests.waiting import at_once, becomes
from tilec_runtime import Stream, Tensor, as_op, zip_ops
from tilec_runtime.errors import UsageError


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """What ends here ends without the collector."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Array(np.ndarray[tuple[int], np.dtype[np.float32]]):
    """An array that can be followed."""


# --- claims
# ------------------------------------------------------------------------------------------------------------------------


def test_a_launch_that_fails_claims_nothing_while_somebody_looks_at_the_error(held: Held) -> None:
    x = held.tensor().share()
    with pytest.raises(ZeroDivisionError) as caught:
        zip_ops(as_op(1).map(lambda _: 1 // 0), held.module.ops.add(held.tensor(), x, x)).sync()
    assert caught.value.__traceback__ is not None
    assert x.lease.claims == ()


# --- futures
# -----------------------------------------------------------------------------------------------------------------------


def test_errors_that_are_repeated_keep_nobody_who_was_told(held: Held) -> None:
    def fail(_: Any) -> int:
        raise UsageError("mine")

    op = as_op(1).map(fail).shared()

    def told() -> Any:
        thing = Thing()
        with contextlib.suppress(UsageError):
            op.sync()
        return weakref.ref(thing)

    assert told()() is None
    assert told()() is None


# --- after a failure
# ---------------------------------------------------------------------------------------------------------------


def test_who_writes_goes_on_behind_work_that_failed(held: Held) -> None:
    """On whatever stream: somebody was told of the failure, and a retry must not fail of it."""
    t, x = held.tensor(), held.tensor()
    with t.borrow_mut() as z, x.borrow() as read:
        held.fail = True
        with pytest.raises(OSError, match="the kernel failed"):
            held.module.ops.add(z, read, read).sync()
        held.fail = False
        for _ in range(4):  # the next stream in turn each time
            held.module.ops.add(z, read, read).sync()
    assert np.asarray(t).tolist() == [2.0] * 4
    with (
        x.borrow_mut() as z,
        Stream(held.device, driver=held.driver) as other,
    ):  # what only was read
        held.module.add(z, ones(4), ones(4), stream=other)
        other.sync()
    assert np.asarray(x).tolist() == [2.0] * 4


def test_the_host_is_told_that_what_it_reads_is_what_a_launch_failed_to_write(held: Held) -> None:
    t = held.tensor()
    with t.borrow_mut() as z:
        held.fail = True
        with pytest.raises(OSError, match="the kernel failed"):
            held.module.ops.add(z, ones(4), ones(4)).sync()
        with pytest.raises(OSError, match="the kernel failed"):
            np.asarray(z)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_arguments_of_a_future_that_was_dropped_go_by_themselves(
    held: Held, *, elsewhere: bool
) -> None:
    """Nothing more is asked of tilec."""
    x = ones(4).view(Array)
    alive = weakref.ref(x)
    futures = [
        held.module.ops.add(held.tensor(), Tensor.from_foreign(x, driver=held.driver), x).future()
    ]
    del x
    if elsewhere:
        at_once(futures.clear)
    futures.clear()
    assert becomes(lambda: alive() is None, collect=False)
