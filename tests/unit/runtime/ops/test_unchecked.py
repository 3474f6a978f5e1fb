"""then_unchecked: functions of a chain that execute ops themselves, where tensors stay in order and
errors stay errors.
"""

from __future__ import annotations

import pytest

from tests.unit.runtime.ops.device_samples import Held
from tests.waiting import PATIENCE
from tilec_runtime import DeviceOp, Stream, Tensor, api, as_op, with_context, zip_ops
from tilec_runtime.errors import GraphCaptureError, NestedExecutionError, UsageError, UsedOpError

HERE = "test_unchecked.py"


class OnOne:
    """A policy of one stream that is there."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def next_stream(self) -> Stream:
        return self.stream


def test_the_function_may_execute_ops_and_the_guard_is_back_afterwards(held: Held) -> None:
    """Unlike a second name of `then`, which would refuse them."""
    stream = held.device.new_stream()

    def nest(x: int) -> DeviceOp[int]:
        found = [
            as_op(x).sync(),
            as_op(x).sync_on(stream),
            as_op(x).future().result(),
            as_op(x).then_unchecked(nest_once).sync(),
        ]
        return as_op(sum(found))

    def nest_once(x: int) -> DeviceOp[int]:
        return as_op(as_op(x).sync())

    assert as_op(2).then_unchecked(nest).sync() == 8
    with pytest.raises(NestedExecutionError):
        as_op(2).then_unchecked(nest).map(lambda x: as_op(x).sync()).sync()
    with pytest.raises(NestedExecutionError):
        as_op(2).then_unchecked(lambda x: with_context(lambda ctx: as_op(x).sync())).sync()


def test_tensors_stay_in_order(held: Held) -> None:
    """What the function reads and writes on another stream comes after what the op did before, and
    before what it does next.
    """
    one, four = (api.full(4, number).sync().share() for number in (1, 4))
    other, seen = held.device.new_stream(), []

    def look(t: Tensor) -> DeviceOp[Tensor]:
        copying = t.dup().schedule(OnOne(other))
        with pytest.raises(TimeoutError):
            copying.exception(
                0.1
            )  # the kernel is held: nothing that reads what it writes can be done
        held.gate.set()
        seen.extend([t.to_host().tolist(), copying.result(PATIENCE).to_host().tolist()])
        held.gate.clear()
        return as_op(held.module.ops.add(t, one, four).first().enqueue_on(other))

    added = held.module.ops.add(api.zeros(4), one, one).first()
    with held.held():
        future = added.then_unchecked(look).then(lambda t: t.dup()).future()
        with pytest.raises(TimeoutError):
            future.exception(0.1)
    assert future.result(PATIENCE).to_host().tolist() == [5.0] * 4
    assert seen == [[2.0] * 4] * 2


def test_an_error_inside_gives_back_what_moved_in(held: Held) -> None:
    t = api.ones(4).sync()

    def fail(_: Tensor) -> DeviceOp[None]:
        as_op(1).sync()
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        api.fill(t, 2.0).then_unchecked(fail).sync()
    assert any(HERE in note for note in getattr(caught.value, "__notes__", [HERE]))
    assert t.to_host().tolist() == [2.0] * 4
    assert as_op(1).sync() == 1


def test_it_is_an_op_as_all_others(held: Held) -> None:
    source = as_op(1)
    op = source.then_unchecked(lambda x: as_op(x + 1))
    assert repr(op).startswith("<DeviceOp value.then_unchecked, created at ")
    with pytest.raises(UsedOpError, match=rf"moved into then_unchecked at .*{HERE}"):
        source.sync()
    assert zip_ops(op.map(lambda x: x + 1), as_op(None)).sync() == (3, None)
    with pytest.raises(UsedOpError):
        op.sync()
    with pytest.raises(
        UsageError, match="the function of `then_unchecked` gave a int, and not a DeviceOp"
    ):
        as_op(1).then_unchecked(lambda x: x).sync()  # type: ignore[arg-type, return-value]
    with pytest.raises(UsageError, match="then_unchecked takes a function, and this is a int"):
        as_op(1).then_unchecked(3)  # type: ignore[arg-type]
    t = api.ones(4).sync()
    del op
    dropped = api.fill(t, 2.0).then_unchecked(as_op)
    del dropped
    assert t.to_host().tolist() == [1.0] * 4


def test_a_capture_refuses_it_before_anything_ran(held: Held) -> None:
    ran: list[int] = []
    op = as_op(1).inspect(ran.append).then_unchecked(as_op)
    with pytest.raises(GraphCaptureError, match=r"^then_unchecked cannot be captured into a graph"):
        op.graph()
    assert ran == []
    assert as_op(1).sync() == 1
