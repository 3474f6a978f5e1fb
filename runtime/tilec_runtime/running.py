"""The op that each thread is running, and its stream."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Protocol

from tilec_runtime.errors import NestedExecutionError


class Labelled(Protocol):
    """The part of an op that messages use."""

    @property
    def label(self) -> str:
        """Name and call site."""


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
