"""Runs one op on one stream: what every way to drive an op (sync, await, enqueue) has in common."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from tilec_runtime.errors import GraphCaptureError, NestedExecutionError, TilecError
from tilec_runtime.kept import let_go
from tilec_runtime.marks import Mark
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.site import label
from tilec_runtime.running import RUNNING
from tilec_runtime.tensors.recording import recording_of

if TYPE_CHECKING:
    from tilec_runtime.ops.op import DeviceOp
    from tilec_runtime.streams import Stream

T = TypeVar("T")


@dataclasses.dataclass(slots=True)  # a frozen one takes three times as long to make, and every op has one
class Execution(Generic[T]):
    """An op that was enqueued.

    Attributes:
        value: its result, which is ready once the mark is reached.
        mark: the end of its work. context: holds what must live until then.
    """

    value: T
    mark: Mark
    context: ExecutionContext


def submit(op: DeviceOp[T], stream: Stream, *, blocking: bool = False) -> Execution[T]:
    """Enqueue an op.

    Args:
        op: runs once.
        stream: where.
        blocking: as for `ExecutionContext`.

    Raises:
        NestedExecutionError: this thread enqueues another op at the moment.
        UsedOpError: it was used before.
    """
    refuse_nested(op)
    if stream.borrowed and recording_of(stream.driver, stream.device, stream.handle) is not None:
        raise GraphCaptureError(
            f"<DeviceOp {op.label}> cannot be executed on a stream that another library captures",
            cause="an op waits for the device and keeps what it uses until then, and a capture does nothing yet",
            fix="capture the op itself (op.graph_on), or call launchers with the stream",
        )
    context = ExecutionContext(stream, blocking=blocking)  # first: where the stream is closed, the op stays usable
    op._take("executed")  # noqa: SLF001 - the two are one thing
    RUNNING.op, RUNNING.stream = op, context.stream
    try:
        value = op._run_in(context)  # noqa: SLF001
        mark = context._finish()  # noqa: SLF001
    except BaseException as error:
        label(error, op.label)  # of the end of the execution too
        context._abandon()  # noqa: SLF001
        let_go(error)
        del op, context  # this frame is one of those that the error keeps
        raise
    finally:
        RUNNING.op = None
    return Execution(value, mark, context)


def running() -> str:
    """The op that this thread enqueues at the moment, with its place; empty for none."""
    return "" if RUNNING.op is None else RUNNING.op.label


@contextlib.contextmanager
def executing(op: DeviceOp[object]) -> Iterator[None]:
    """While it lasts, this thread enqueues an op.

    Raises:
        NestedExecutionError: it enqueues another one at the moment.
    """
    refuse_nested(op)
    RUNNING.op = op
    try:
        yield
    finally:
        RUNNING.op = None


@contextlib.contextmanager
def unguarded() -> Iterator[None]:
    """While it lasts, this thread may execute ops although it enqueues one: that one said so."""
    outer, RUNNING.op = RUNNING.op, None
    try:
        yield
    finally:
        RUNNING.op = outer


def refuse_nested(op: DeviceOp[object]) -> None:
    """See that this thread may execute an op.

    Raises:
        NestedExecutionError: it enqueues another one at the moment.
    """
    outer = RUNNING.op
    if outer is not None:
        raise NestedExecutionError(
            f"<DeviceOp {op.label}> cannot be executed while this thread executes <DeviceOp {outer.label}>",
            cause="sync, await or future inside of a function of `then`, or of an op's _execute: on another stream, it could use memory "
            "that the outer op has not written yet",
            fix="return the op from the function of `then`, or run it with the context: ctx.run(op)",
        )


def wait(execution: Execution[T], op: DeviceOp[object]) -> T:
    """Wait for an op that was enqueued; its result.

    Raises:
        BaseException: what its work came to.
    """
    error: BaseException | None = None
    mark = execution.mark
    try:
        mark.sync()
        error = mark.failure
    except TilecError as lost:
        error = lost
    except BaseException:  # Ctrl-C: the device goes on, and nobody gets the result
        execution.context._leave(mark)  # noqa: SLF001
        raise
    if error is None:
        mark.done = True
        return execution.value
    label(error, op.label)
    try:
        raise error
    finally:
        del error, execution  # the error's traceback has this frame: memory would wait for the collector
