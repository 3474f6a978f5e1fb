"""Makes ops from values, functions and other ops."""

# ruff: noqa: SLF001 - parts of an op are ops too
from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeVar, final, overload

from tilec_runtime.ops.base import require_op, take_all
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.execution import require_function
from tilec_runtime.ops.once import SharedExecution
from tilec_runtime.ops.op import DeviceOp, SharedOp
from tilec_runtime.ops.steps import Shares

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")


@final
class Value(DeviceOp[T]):
    """An op that returns a value, and enqueues nothing."""

    _graph_node_: ClassVar[Literal[True]] = True

    def __init__(self, content: T) -> None:
        """Use `as_op`."""
        self._content: T | None = content

    def _arity(self) -> int | None:
        return len(self._content) if isinstance(self._content, tuple) else None

    def _execute(self, ctx: ExecutionContext) -> T:  # noqa: ARG002 - nothing is enqueued
        content, self._content = self._content, None  # the op must not keep the value alive
        return content  # type: ignore[return-value]


@final
class WithContext(DeviceOp[T]):
    """An op that calls a function with its context."""

    def __init__(self, function: Callable[[ExecutionContext], T | DeviceOp[T]]) -> None:
        """Use `with_context`."""
        self._function: Callable[[ExecutionContext], T | DeviceOp[T]] | None = function

    @property
    def name(self) -> str:
        """Always `with_context`."""
        return "with_context"

    def _execute(self, ctx: ExecutionContext) -> T:
        function, self._function = self._function, None
        assert function is not None
        result = function(ctx)
        return ctx.run(result) if isinstance(result, DeviceOp) else result


@final
class Zip(DeviceOp[tuple[Any, ...]]):
    """Several ops on one stream, whose results become a tuple."""

    def __init__(self, ops: tuple[DeviceOp[Any], ...]) -> None:
        """Use `zip_ops`."""
        self._ops = ops

    def _arity(self) -> int | None:
        return len(self._ops)

    def _execute(self, ctx: ExecutionContext) -> tuple[Any, ...]:
        try:
            return tuple([op._run_in(ctx) for op in self._ops])
        finally:
            self._discard()  # those that did not run

    def _discard(self) -> None:
        ops, self._ops = self._ops, ()
        for op in ops:
            op._discard()


@overload
def shared(content: Shares[T]) -> SharedOp[T]: ...
@overload
def shared(content: tuple[Any, ...]) -> SharedOp[Any]: ...
@overload
def shared(content: T) -> SharedOp[T]: ...
def shared(content: Any) -> SharedOp[Any]:
    """Return an op that returns an existing value, for any number of users.

    A tensor, alone or in a tuple, comes as a share.
    """
    return SharedOp(SharedExecution(None, content), "shared")


def as_op(content: T | DeviceOp[T]) -> DeviceOp[T]:
    """Return an op unchanged, and any other value as an op that returns it.

    Such an op enqueues nothing.
    """
    return content if isinstance(content, DeviceOp) else Value(content)


@overload
def with_context(function: Callable[[ExecutionContext], DeviceOp[T]]) -> DeviceOp[T]: ...
@overload
def with_context(function: Callable[[ExecutionContext], T]) -> DeviceOp[T]: ...
def with_context(function: Callable[[ExecutionContext], Any]) -> DeviceOp[Any]:
    """Return an op that calls a function with its context.

    The function may enqueue work on the stream of the context.

    Args:
        function: called when the op runs; returns the result, or an op whose result is this one's.

    Raises:
        CallError: `function` is not a function.
    """
    require_function("with_context", function)
    return WithContext(function)


@overload
def zip_ops(a: DeviceOp[A], /) -> DeviceOp[tuple[A]]: ...
@overload
def zip_ops(a: DeviceOp[A], b: DeviceOp[B], /) -> DeviceOp[tuple[A, B]]: ...
@overload
def zip_ops(a: DeviceOp[A], b: DeviceOp[B], c: DeviceOp[C], /) -> DeviceOp[tuple[A, B, C]]: ...
@overload
def zip_ops(
    a: DeviceOp[A], b: DeviceOp[B], c: DeviceOp[C], d: DeviceOp[D], /
) -> DeviceOp[tuple[A, B, C, D]]: ...
@overload
def zip_ops(
    a: DeviceOp[A], b: DeviceOp[B], c: DeviceOp[C], d: DeviceOp[D], e: DeviceOp[E], /
) -> DeviceOp[tuple[A, B, C, D, E]]: ...
@overload
def zip_ops(
    a: DeviceOp[A],
    b: DeviceOp[B],
    c: DeviceOp[C],
    d: DeviceOp[D],
    e: DeviceOp[E],
    f: DeviceOp[F],
    /,
) -> DeviceOp[tuple[A, B, C, D, E, F]]: ...
@overload
def zip_ops(*ops: DeviceOp[A]) -> DeviceOp[tuple[A, ...]]: ...
def zip_ops(*ops: DeviceOp[Any]) -> DeviceOp[Any]:
    """Return an op that runs ops in order on one stream, and returns a tuple.

    Raises:
        CallError: an argument is not an op.
        UsedOpError: an op was used before, or occurs twice.
    """
    for op in ops:
        require_op(op, "zip_ops takes ops", "wrap it: as_op(x)")
    take_all(ops, "moved into zip_ops")
    return Zip(ops)
