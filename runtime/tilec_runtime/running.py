"""The op that each thread enqueues at the moment, and on which stream."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

from tilec_runtime.errors import Location, NestedExecutionError

T_co = TypeVar("T_co", covariant=True)


class Labelled(Protocol):
    """An op, as far as messages name it."""

    @property
    def name(self) -> str:
        """What it is."""

    @property
    def created(self) -> Location | None:
        """Its call site."""

    @property
    def label(self) -> str:
        """Name and call site."""


class Runnable(Labelled, Protocol[T_co]):
    """An op, as far as what runs it needs: `DeviceOp`, whose methods name futures and graphs."""

    def _take(self, where: str) -> None: ...

    def _run_in(self, ctx: Any) -> T_co: ...

    def _require_here(self, ctx: Any) -> None: ...


class _Running(threading.local):
    """The op that this thread enqueues at the moment, and the handle of its stream; None for none."""

    op: Labelled | None = None
    stream: int | None = None


RUNNING = _Running()


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Let this thread execute ops although it enqueues one: that one said so."""
    outer, RUNNING.op = RUNNING.op, None
    try:
        yield
    finally:
        RUNNING.op = outer


def refuse_nested(op: Labelled | str) -> None:
    """Check that this thread may execute an op, or a transfer of this name that is no op.

    Raises:
        NestedExecutionError: it enqueues another one at the moment.
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
