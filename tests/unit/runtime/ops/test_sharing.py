"""Ops that run once for many: shared ops and unzipped tuples, from any thread, on any stream, with
their errors.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ones
from tests.unit.runtime.ops.device_samples import Held
from tests.waiting import at_once
from tilec_runtime import (
    DeviceOp,
    ExecutionContext,
    api,
    as_op,
    use_device,
    with_context,
    zip_ops,
)
from tilec_runtime.errors import (
    CallError,
    DriverError,
    GraphCaptureError,
    NestedExecutionError,
    SchedulingError,
    UsageError,
)

HERE = "test_sharing.py"


def grow(held: Held, x: Any) -> DeviceOp[Any]:
    return with_context(lambda ctx: held.increment(ctx, np.zeros_like(x), x))


def test_of_many_threads_one_executes(held: Held) -> None:
    runs: list[int] = []
    results: list[Any] = []

    def slowly(ctx: ExecutionContext) -> Any:
        runs.append(1)
        threading.Event().wait(0.02)  # everybody comes meanwhile
        return held.increment(ctx, np.zeros(4, np.float32), ones(4))

    op = with_context(slowly).shared()

    def use() -> None:
        with use_device(held.device):
            results.append(op.sync())

    at_once(*[use] * 16)
    assert (len(runs), len(results)) == (1, 16)
    assert all(found is results[0] for found in results)


def test_an_error_is_repeated_to_every_user(held: Held) -> None:
    runs: list[int] = []

    def fail(_: ExecutionContext) -> None:
        runs.append(1)
        raise DriverError("refused")

    op = with_context(fail).shared()
    depths = set()
    for use in (
        op.clone().sync,
        op.sync,
        op.sync,
        lambda: op.future().result(),
        lambda: zip_ops(as_op(1), op).sync(),
    ):
        with pytest.raises(
            DriverError, match=rf"refused\n  op: with_context, created at .*{HERE}:\d+$"
        ) as caught:
            use()
        if use == op.sync:
            depths.add(len(caught.traceback))
    assert (len(runs), len(depths)) == (1, 1), "the traceback does not grow"


class WholeError(Exception):
    """An error whose copies keep all of it, as Dask makes those of every error."""

    def __copy__(self) -> WholeError:
        other = WholeError(*self.args).with_traceback(self.__traceback__)
        other.__cause__, other.__context__ = self.__cause__, self.__context__
        return other


def test_an_error_for_every_user_keeps_no_frames(held: Held) -> None:
    def failing(_: ExecutionContext) -> None:
        raise WholeError from KeyError()

    op = with_context(failing).shared()
    with pytest.raises(WholeError):
        op.sync()
    with pytest.raises(WholeError) as caught:
        op.sync()
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_a_capture_that_refuses_it_is_an_error_of_every_user(held: Held) -> None:
    op = api.ones(4).shared()
    for use in (lambda: op.graph_on(held.device.new_stream()), op.sync):
        with pytest.raises(GraphCaptureError, match="16 bytes cannot be allocated"):
            use()


def test_an_execution_around_it_leaves_it(held: Held) -> None:
    op = api.ones(4).shared()
    for use in (op.sync, op.graph):
        with pytest.raises(NestedExecutionError):
            as_op(1).map(lambda _, use=use: use()).sync()  # type: ignore[misc]
    assert np.asarray(op.sync()).tolist() == [1.0] * 4


def test_an_error_of_the_device_is_told_to_every_user(held: Held) -> None:
    held.fail = True
    op = grow(held, ones(4)).shared()
    for _ in range(6):  # more than there are streams
        with pytest.raises(OSError, match="the kernel failed"):
            op.sync()
    held.fail = False
    assert grow(held, ones(4)).sync().tolist() == [2.0] * 4


def test_an_interrupted_execution_is_no_interrupt_of_later_users(held: Held) -> None:
    def interrupted(_: ExecutionContext) -> None:
        raise KeyboardInterrupt

    op = with_context(interrupted).shared()
    with pytest.raises(KeyboardInterrupt):
        op.sync()
    told = r"^<DeviceOp with_context, .*> runs only once, and has no result"
    with pytest.raises(SchedulingError, match=told) as caught:
        op.sync()
    assert "or Ctrl-C came" in caught.value.cause


def test_shared_ops_that_need_each_other_are_refused_in_threads_too(held: Held) -> None:
    made: list[DeviceOp[int]] = []
    errors: list[SchedulingError] = []

    def use(op: DeviceOp[int]) -> None:
        with (
            use_device(held.device),
            pytest.raises(SchedulingError, match="runs only once, and has no result") as caught,
        ):
            op.sync()
        errors.append(caught.value)

    made += [as_op(0).then(lambda _, other=other: made[other]).shared() for other in (1, 0)]  # type: ignore[misc]
    at_once(*[lambda op=op: use(op) for op in made])  # type: ignore[misc]
    assert len(errors) == 2


# --- unzip
# -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "count", "message"),
    [
        ((1, 2, 3), 2, r"unzip\(2\) of a tuple of 3\n  fix: say unzip\(3\)"),
        ([1, 2], 2, "unzip needs an op that gives a tuple, and this one gave a list"),
        ((1,), 0, "a tuple has one element at least"),
    ],
)
def test_unzip_needs_a_tuple_of_that_many(held: Held, given: Any, count: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        as_op(given).unzip(count)[0].sync()


def test_unzip_needs_no_count_where_it_is_known(held: Held) -> None:
    a, b = zip_ops(as_op(1), as_op("a")).unzip()
    assert (a.sync(), b.sync()) == (1, "a")
    assert [part.sync() for part in as_op((1,)).unzip(1)] == [1]
    launch = held.module.ops.add(*(api.ones(4).sync() for _ in range(3)))
    assert len(launch.unzip()) == len(held.module.kernels["add"].info.params)
    op = as_op(1).map(lambda one: (one, 2))
    with pytest.raises(
        CallError,
        match=r"unzip\(\): how many elements the tuple of <DeviceOp value.map.* is not known",
    ):
        op.unzip()
    assert [part.sync() for part in op.unzip(2)] == [1, 2]
