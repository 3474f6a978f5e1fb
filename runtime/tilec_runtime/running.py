"""The op that each thread is running, and its stream."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

from tilec_runtime.errors import Location, NestedExecutionError

T_co = TypeVar("T_co", covariant=True)


class Labelled(Protocol):
    """The part of an op that messages use."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    @property
    def created(self) -> Location | None:
        """Its call site."""

    @property
    def label(self) -> str:
        """Name and call site."""


class Runnable(Labelled, Protocol[T_co]):
    """The part of an op that runs it.

    `DeviceOp` cannot be named here, because its methods name futures and graphs.
    """

    def _take(self, where: str) -> None: ...

    def _run_in(self, ctx: Any) -> T_co: ...


class _Running(threading.local):
    """The op that this thread is running, and the handle of its stream, or None."""

    op: Labelled | None = None
    stream: int | None = None


RUNNING = _Running()


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Let this thread run ops inside of a `then_unchecked` step."""
    outer, RUNNING.op = RUNNING.op, None
    try:
        yield
    finally:
        RUNNING.op = outer


def refuse_nested(op: Labelled | str) -> None:
    """Check that this thread may run an op, or a named transfer.

    Raises:
        NestedExecutionError: the thread is running another op.
    """
    outer = RUNNING.op
    if outer is not None:
        label = op if isinstance(op, str) else op.label
        raise NestedExecutionError(
            f"<DeviceOp {label}> cannot be executed while this thread executes <DeviceOp {outer.label}>",
            cause="sync, await or future inside of a function of `then`, or of an op's _execute: on another stream, it could use memory "
            "that the outer op has not written yet",
            fix="return the op from the function of `then`, or run it with the context: ctx.run(op)",
        )
