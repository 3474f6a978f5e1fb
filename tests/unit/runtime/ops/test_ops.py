"""DeviceOp: lazy, single use, run on the stream that is picked, with errors that say where it was
made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ones
from tests.unit.runtime.ops.device_samples import Held
from tests.waiting import PATIENCE, becomes
from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.errors import (
    DriverError,
    GraphCaptureError,
    NestedExecutionError,
    SchedulingError,
    TilecError,
    UsageError,
    UsedOpError,
)
from tilec_runtime.ops.combinators import as_op, with_context, zip_ops
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.ops.policy import use_device

HERE = "test_ops.py"


@dataclasses.dataclass
class Grow(DeviceOp[np.ndarray[Any, Any]]):
    """An op of a user's own."""

    held: Held
    x: np.ndarray[Any, Any]

    def _execute(self, ctx: ExecutionContext) -> np.ndarray[Any, Any]:
        return self.held.increment(ctx, np.zeros_like(self.x), self.x)


# --- values and combinators
# ------------------------------------------------------------------------------------------------------


def test_an_op_that_is_a_frozen_dataclass_with_slots() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Frozen(DeviceOp[int]):
        number: int

        def _execute(self, ctx: ExecutionContext) -> int:
            return self.number

    op = Frozen(5)
    with use_device("cpu"):
        assert op.sync() == 5
        with pytest.raises(UsedOpError):
            op.sync()


# --- single use
# ------------------------------------------------------------------------------------------------------------------


def test_reprs_say_what_and_where() -> None:
    op = as_op(1)
    for _ in range(11):
        op = op.map(str)
    assert op.name == "value.map … map (11 steps)"
    assert repr(op).startswith(f"<DeviceOp {op.name}, created at ")
    assert f"{HERE}:" in repr(op)


# --- nested execution and the guard
# ---------------------------------------------------------------------------------------------


def test_nested_execution_is_refused_and_names_both(held: Held) -> None:
    inner = as_op(1)

    def nested(_: object) -> DeviceOp[int]:
        inner.sync()
        return as_op(2)

    with pytest.raises(
        NestedExecutionError,
        match=r"<DeviceOp value, .* cannot be executed while this thread executes <DeviceOp value.then,",
    ) as e:
        as_op(0).then(nested).sync()
    assert isinstance(e.value, SchedulingError)
    assert "ctx.run(op)" in str(e.value)
    assert inner.sync() == 1  # it was refused, not used up


# --- errors
# ----------------------------------------------------------------------------------------------------------------------


def test_an_error_of_the_device_says_where_its_op_was_made(held: Held) -> None:
    held.fail = True
    with pytest.raises(OSError, match="the kernel failed") as caught:
        Grow(held, ones(4)).sync()
    assert any(
        "Grow, created at" in note and HERE in note
        for note in getattr(caught.value, "__notes__", ["Grow, created at " + HERE])
    )
    held.fail = False
    assert Grow(held, ones(4)).sync().tolist() == [2.0] * 4


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda f: zip_ops(as_op(1), with_context(f)).map(str), "with_context"),
        (lambda f: as_op(1).map(str).then(f), "then"),
    ],
)
def test_an_error_names_the_innermost_op_or_step(held: Held, make: Any, name: str) -> None:
    def refuse(_: object) -> DeviceOp[int]:
        raise DriverError("the launch failed")

    with pytest.raises(
        TilecError, match=rf"the launch failed\n  op: {name}, created at .*{HERE}:\d+$"
    ):
        make(refuse).sync()


def test_work_of_an_op_that_failed_fails_no_other(held: Held) -> None:
    """The op raised after it had enqueued a kernel, which fails too: nobody else on that stream is
    told.
    """
    stream = held.device.new_stream()

    def fail(ctx: ExecutionContext) -> None:
        held.increment(ctx, np.zeros(4, np.float32), ones(4))
        raise ValueError("mine")

    held.fail = True
    with pytest.raises(ValueError, match="mine"):
        with_context(fail).sync_on(stream)
    assert becomes(lambda: held.runs == 1)
    assert COMPLETIONS.drain(PATIENCE)
    held.fail = False
    assert Grow(held, ones(4)).sync_on(stream).tolist() == [2.0] * 4


def test_a_capture_refuses_then_unchecked(held: Held) -> None:
    op = as_op(1).then_unchecked(as_op)
    with pytest.raises(GraphCaptureError, match=r"^then_unchecked cannot be captured into a graph"):
        op.graph()
    assert as_op(1).sync() == 1


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda: as_op(1).then(lambda x: x).sync(),
            r"the function of `then` gave a int, and not a DeviceOp\n  fix: return an op, as_op\(x\)",
        ),
        (
            lambda: as_op(1).first().sync(),
            "`first` needs a tuple with elements, and the op gave a int",
        ),
        (
            lambda: as_op(()).last().sync(),
            "`last` needs a tuple with elements, and the op gave a tuple",
        ),
        (lambda: zip_ops(as_op(1), 2), "zip_ops takes ops, and this is a int"),
        (lambda: as_op(1).map(3), "map takes a function, and this is a int\n  fix: "),
    ],
)
def test_wrong_uses_of_ops_are_refused(held: Held, use: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message}"):
        use()
