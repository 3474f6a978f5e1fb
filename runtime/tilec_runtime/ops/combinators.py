"""Makes ops of values, of functions, and of other ops."""

# ruff: noqa: SLF001 - parts of an op are ops too
from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeVar, cast, final, overload

from tilec_runtime.errors import CallError
from tilec_runtime.ops.base import take_all
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
    """An op that gives a value, and does nothing."""

    _graph_node_: ClassVar[Literal[True]] = True

    def __init__(self, content: T) -> None:
        """Use `as_op`."""
        self._content: T | None = content

    def _arity(self) -> int | None:
        return len(self._content) if isinstance(self._content, tuple) else None

    def _execute(self, ctx: ExecutionContext) -> T:  # noqa: ARG002 - nothing is enqueued
        content, self._content = self._content, None  # the op does not hold what it has given away
        return content  # type: ignore[return-value]


@final
class WithContext(DeviceOp[T]):
    """An op that is a function of the context."""

    def __init__(self, function: Callable[[ExecutionContext], T | DeviceOp[T]]) -> None:
        """Use `with_context`."""
        self._function: Callable[[ExecutionContext], T | DeviceOp[T]] | None = function

    @property
    def name(self) -> str:
        """`with_context`."""
        return "with_context"

    def _execute(self, ctx: ExecutionContext) -> T:
        function, self._function = self._function, None
        assert function is not None
        result = function(ctx)
        return ctx.run(result) if isinstance(result, DeviceOp) else result


@final
class Zip(DeviceOp[tuple[Any, ...]]):
    """Several ops on one stream, and their results as a tuple."""

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

    def _require_here(self, ctx: ExecutionContext) -> None:
        for op in self._ops:
            op._require_here(ctx)


@overload
def shared(content: Shares[T]) -> SharedOp[T]: ...
@overload
def shared(content: tuple[Any, ...]) -> SharedOp[Any]: ...
@overload
def shared(content: T) -> SharedOp[T]: ...
def shared(content: Any) -> SharedOp[Any]:
    """Return an op that gives an existing value and may be used any number of times.

    It gives shares of tensors, also of those in a tuple.
    """
    return SharedOp(SharedExecution(None, content), "shared")


def as_op(content: T | DeviceOp[T]) -> DeviceOp[T]:
    """Return an op unchanged, and any other value as an op that gives it and enqueues nothing."""
    return content if isinstance(content, DeviceOp) else Value(content)


@overload
def with_context(function: Callable[[ExecutionContext], DeviceOp[T]]) -> DeviceOp[T]: ...
@overload
def with_context(function: Callable[[ExecutionContext], T]) -> DeviceOp[T]: ...
def with_context(function: Callable[[ExecutionContext], Any]) -> DeviceOp[Any]:
    """Return an op that calls a function with its context.

    The function may enqueue work on the stream of the context.

    Args:
        function: called when the op runs; gives the result, or an op whose result is this one's.

    Raises:
        CallError: it is no function, or one that gives a coroutine.
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
    """Return an op that runs several ops in order and gives a tuple of results.

    They run on one stream.

    Raises:
        CallError: one of them is no op.
        UsedOpError: one was used before, or is there twice.
    """
    foreign = [
        type(op).__qualname__ for op in cast("tuple[Any, ...]", ops) if not isinstance(op, DeviceOp)
    ]
    if foreign:
        raise CallError(
            f"zip_ops takes ops, and one of these is a {foreign[0]}", fix="wrap it: as_op(x)"
        )
    take_all(ops, "moved into zip_ops")
    return Zip(ops)
