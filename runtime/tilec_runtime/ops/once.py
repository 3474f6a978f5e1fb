"""An execution that several ops share: it runs once, and all get its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from tilec_runtime.device.lines import RecordedEvent
from tilec_runtime.errors import SchedulingError
from tilec_runtime.forks import ForkLock
from tilec_runtime.kept import copied
from tilec_runtime.ops.base import Op
from tilec_runtime.ops.context import ExecutionContext

T = TypeVar("T")
# One lock for all shared executions. With a lock each, two executions that need each other could
# deadlock on two threads.
_LOCK = ForkLock()


class SharedExecution(Generic[T]):
    """An op that its first user executes on its own stream.

    The streams of the other users wait for it. An error is kept, and raised again for every user.

    Attributes:
        op: the op; None once it was executed.
        result: the result of the execution.
    """

    def __init__(self, op: Op[T] | None, result: T | None = None) -> None:
        """Take an op that was used up for this, or an existing result."""
        self.op = op
        self.result = result
        self._event: RecordedEvent | None = None
        self._error: BaseException | None = None

    def run(self, ctx: ExecutionContext, take: Callable[[T], Any]) -> Any:
        """Execute the op here, or make the stream wait for its execution elsewhere.

        Return the value of `take` for the result; users call it one at a time.

        Raises:
            BaseException: the error of the execution, again.
        """
        with _LOCK:
            if self.op is not None:
                self._execute(ctx)
            if self._error is not None:
                raise copied(self._error)  # each raise adds frames to its own copy
            if self._event is not None:
                ctx.wait_for(self._event)
            return take(cast("T", self.result))

    def _execute(self, ctx: ExecutionContext) -> None:
        op, self.op = self.op, None
        assert op is not None
        # The error of users that come while it runs, on this thread, and after Ctrl-C.
        self._error = SchedulingError(
            f"<DeviceOp {op.label}> runs only once, and has no result",
            cause="it is a part of itself (a function of `then` gives it), or Ctrl-C came while its functions ran",
            fix="make a new one, which is no part of itself",
        )
        try:
            self.result = op._run_in(ctx)  # noqa: SLF001 - a method of all ops
            self._error = None
        except Exception as error:
            self._error = copied(error)
            raise
        finally:
            # After a failure too, for the work that was enqueued; and before the lock is released,
            # because other threads may need the event then.
            self._event = ctx.record()
