"""An execution that several ops need: it runs once, and each of them gets its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from tilec_runtime.device.marks import Mark
from tilec_runtime.errors import SchedulingError
from tilec_runtime.forks import ForkLock
from tilec_runtime.kept import copied
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.execution import label
from tilec_runtime.running import Runnable

T = TypeVar("T")
# One lock for all shared executions: two of them may need each other, on two threads.
_LOCK = ForkLock()


class SharedExecution(Generic[T]):
    """An op that the first user executes on its own stream; the streams of the others wait for it.

    An error is kept, and repeated to every user.

    Attributes:
        op: what is executed; None once it was.
        result: of the execution.
    """

    def __init__(self, op: Runnable[T] | None, result: T | None = None) -> None:
        """Take an op that was used up for this, or a result that is there."""
        self.op = op
        self.result = result
        self._busy = False
        self._mark: Mark | None = None
        self._error: BaseException | None = None

    def run(self, ctx: ExecutionContext, take: Callable[[T], Any]) -> Any:
        """Execute it here, or let the stream wait for where it was executed; return what `take`
        makes of the result, one user at a time.

        Raises:
            BaseException: what its execution raised, again.
        """
        with _LOCK:
            if self._busy:
                raise SchedulingError(
                    "a shared op is executed as a part of itself",
                    cause="a function of `then` gives the op that it belongs to",
                    fix="give another op",
                )
            if self.op is not None:
                self.require_here(ctx)
                self._execute(ctx)
            if self._error is not None:
                raise copied(self._error)  # each raise adds frames to its own copy
            if self._mark is not None:
                ctx.wait_for(self._mark)
            return take(cast("T", self.result))

    def require_here(self, ctx: ExecutionContext) -> None:
        """Check that it may be executed here, unless it was: a refusal leaves it to other users."""
        with _LOCK:
            if self.op is not None:
                try:
                    self.op._require_here(ctx)  # noqa: SLF001 - of every op
                except Exception as error:
                    label(error, self.op.label)
                    raise

    def _execute(self, ctx: ExecutionContext) -> None:
        op, self.op = self.op, None
        assert op is not None
        self._busy = True
        try:
            self.result = op._run_in(ctx)  # noqa: SLF001 - of every op
        except Exception as error:
            self._error = copied(error)
            raise
        except BaseException as error:  # Ctrl-C is this thread's alone
            self._error = SchedulingError(
                f"<DeviceOp {op.label}> was interrupted while it was executed, and runs only once",
                cause="Ctrl-C came while its functions ran on the host",
                fix="make a new one",
            )
            self._error.__cause__ = error
            raise
        finally:
            self._busy = False
            # Also behind a failure, for what was enqueued; and before this execution ends, since
            # other threads may need it by then.
            self._mark = ctx.mark()
