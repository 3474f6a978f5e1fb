"""Runs one op on one stream: what every way to drive an op (sync, await, enqueue) has in common."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from tilec_runtime.device.marks import Mark
from tilec_runtime.device.recording import recording_of
from tilec_runtime.errors import CallError, GraphCaptureError, TilecError
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.site import label
from tilec_runtime.running import RUNNING, Runnable, refuse_nested

if TYPE_CHECKING:
    from tilec_runtime.device.streams import Stream

T = TypeVar("T")


def submit(
    op: Runnable[T], stream: Stream, *, waited: bool = False
) -> tuple[T, ExecutionContext, Mark | None]:
    """Enqueue an op; return its result, what must live until that is ready, and the mark behind its
    work.

    Args:
        op: runs once.
        stream: where.
        waited: the caller synchronizes the stream next: there may be no mark.

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
    context = ExecutionContext(
        stream, blocking=not waited
    )  # first: where the stream is closed, the op stays usable
    op._take("executed")  # noqa: SLF001 - the two are one thing
    context._begin()  # noqa: SLF001
    RUNNING.op, RUNNING.stream = op, context.stream
    try:
        return op._run_in(context), context, context._finish(waited=waited)  # noqa: SLF001
    except BaseException as error:
        label(error, op.label)  # of the end of the execution too
        context._abandon()  # noqa: SLF001
        raise
    finally:
        RUNNING.op = None


def enqueue(op: Runnable[T], stream: Stream) -> tuple[T, ExecutionContext, Mark]:
    """`submit`, with a mark."""
    value, context, mark = submit(op, stream)
    assert mark is not None
    return value, context, mark


def run(op: Runnable[T], stream: Stream) -> T:
    """Enqueue an op and synchronize its stream; return its result.

    Raises:
        BaseException: what its work came to.
    """
    value, context, mark = submit(op, stream, waited=True)
    try:
        error = _waited(context, mark)
    except TilecError as lost:
        error = lost
    except BaseException:  # Ctrl-C: the device goes on, and nobody gets the result
        context._leave(mark or context.mark())  # noqa: SLF001 - the two are one thing
        raise
    if error is None:
        return value
    label(error, op.label)
    try:
        raise error
    finally:
        del (
            error,
            value,
            context,
        )  # the error's traceback has this frame: memory would wait for the collector


def _waited(context: ExecutionContext, mark: Mark | None) -> BaseException | None:
    """Wait for an execution; return what its work came to."""
    if mark is not None:
        mark.sync()
        return mark.failure
    number = context.line.enqueued
    context.driver.synchronize(context.device, context.stream)
    context.line.complete(number)
    return None


def require_function(verb: str, given: Any) -> None:
    """See that a step is a function, and one that gives its result itself.

    Raises:
        CallError: it is none.
    """
    if not callable(given):
        raise CallError(
            f"{verb} takes a function, and this is a {type(given).__qualname__}",
            fix="pass a function of one argument",
        )
    if inspect.iscoroutinefunction(given):
        name = getattr(given, "__qualname__", repr(given))
        what = f"{verb} takes a function, and {name} is a coroutine function"
        raise CallError(
            what,
            cause="it would give a coroutine, which nobody would await",
            fix="await the op, and then call it",
        )
