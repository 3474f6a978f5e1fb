"""Runs one op on one stream, for sync, await, futures and `enqueue_on`."""

from __future__ import annotations

from typing import Any, TypeVar

from tilec_runtime.device.lines import RecordedEvent
from tilec_runtime.device.recording import recording_of
from tilec_runtime.device.streams import Stream
from tilec_runtime.errors import CallError, GraphCaptureError, TilecError
from tilec_runtime.ops.base import Op, label
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.running import RUNNING, refuse_nested

T = TypeVar("T")


def submit(
    op: Op[T], stream: Stream, *, waited: bool = False
) -> tuple[T, ExecutionContext, RecordedEvent | None]:
    """Enqueue an op; return its result, its context, and the event behind its work.

    Args:
        op: the op.
        stream: the stream.
        waited: whether the caller synchronizes the stream next; then the event may be None.

    Raises:
        NestedExecutionError: this thread executes another op.
        UsedOpError: it was used before.
        GraphCaptureError: another library captures the stream.
    """
    refuse_nested(op)
    if stream.borrowed and recording_of(stream.driver, stream.device, stream.handle) is not None:
        raise GraphCaptureError(
            f"<DeviceOp {op.label}> cannot be executed on a stream that another library captures",
            cause="an op waits for the device and keeps what it uses until then, and a capture does nothing yet",
            fix="capture the op itself (op.graph_on), or call launchers with the stream",
        )
    # Before the op is used up: if the stream is closed, the op stays usable.
    context = ExecutionContext(stream, blocking=not waited)
    op._take("executed")  # noqa: SLF001 - a method of all ops
    context.begin()
    RUNNING.op, RUNNING.stream = op, context.stream
    try:
        return op._run_in(context), context, context.finish(waited=waited)  # noqa: SLF001
    except BaseException as error:
        label(error, op.label)  # `finish` may have failed, outside of `_run_in`
        context.abandon()
        raise
    finally:
        RUNNING.op = None


def enqueue(op: Op[T], stream: Stream) -> tuple[T, ExecutionContext, RecordedEvent]:
    """Do as `submit`, and always return an event."""
    value, context, event = submit(op, stream)
    assert event is not None
    return value, context, event


def run(op: Op[T], stream: Stream) -> T:
    """Enqueue an op and synchronize its stream; return its result.

    Raises:
        BaseException: the error of the op, or of its work on the device.
    """
    value, context, event = submit(op, stream, waited=True)
    error: BaseException | None = None
    try:
        if event is None:
            number = context.line.enqueued
            context.driver.synchronize(context.device, context.stream)
            context.line.complete(number)
        else:
            event.sync()
            error = event.failure
    except TilecError as lost:
        error = lost
    except BaseException:  # Ctrl-C: the device continues, and no caller gets the result
        context.leave(event or context.record())
        raise
    if error is None:
        return value
    label(error, op.label)
    try:
        raise error
    finally:
        # The error's traceback keeps this frame, which would keep memory until a collection.
        del error, value, context


def require_function(verb: str, given: Any) -> None:
    """Check that a step is a function.

    Raises:
        CallError: it is not.
    """
    if not callable(given):
        raise CallError(
            f"{verb} takes a function, and this is a {type(given).__qualname__}",
            fix="pass a function of one argument",
        )
