"""`then_unchecked`: a step whose function may itself execute ops, which `then` refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, final

from tilec_runtime.errors import CallError
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.execution import executing
from tilec_runtime.ops.op import DeviceOp, require_function
from tilec_runtime.ops.site import label

U = TypeVar("U")
_CAUSE = "its function may execute ops, which is done now and not at each replay"


@final
class ThenUnchecked(DeviceOp[U]):
    """An op, and the function that makes the next one of its result, free to execute others meanwhile."""

    def __init__(self, source: DeviceOp[Any], function: Callable[[Any], DeviceOp[U]]) -> None:
        """Take the op.

        Raises:
            CallError: it is no function. UsedOpError: the op was used before.
        """
        require_function("then_unchecked", function)
        source._take("moved into then_unchecked")  # noqa: SLF001 - the two are one thing
        self._source: DeviceOp[Any] | None = source
        self._function: Callable[[Any], DeviceOp[U]] | None = function

    @property
    def name(self) -> str:
        """`zip.then_unchecked`."""
        return "then_unchecked" if self._source is None else f"{self._source.name}.then_unchecked"

    def _execute(self, ctx: ExecutionContext) -> U:
        self._require_now(ctx)
        source, function = self._source, self._function
        self._source = self._function = None  # what they hold may be tensors
        assert source is not None
        assert function is not None
        value = source._run_in(ctx)  # noqa: SLF001
        del source
        ctx.publish()
        try:
            with executing(None):
                op = function(value)
            del value, function
            _require_op(op)
        except BaseException as error:
            label(error, self.label)
            raise
        return ctx.run(op)

    def _discard(self) -> None:
        if self._source is not None:
            self._source._discard()  # noqa: SLF001

    def _require_here(self, ctx: ExecutionContext) -> None:
        self._require_now(ctx)
        if self._source is not None:
            self._source._require_here(ctx)  # noqa: SLF001

    @staticmethod
    def _require_now(ctx: ExecutionContext) -> None:
        ctx.refuse_capture("then_unchecked", cause=_CAUSE, fix="use `then`, or capture the ops step by step: CudaGraph.scope")


def _require_op(made: Any) -> None:
    if not isinstance(made, DeviceOp):
        what = f"the function of `then_unchecked` gave a {type(made).__qualname__}, and not a DeviceOp"
        raise CallError(what, fix="return an op, or value(x) for one that is only a value")
