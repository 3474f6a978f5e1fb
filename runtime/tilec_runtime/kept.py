"""Errors kept for a later caller, without their frames, which hold tensors."""

from __future__ import annotations

import copy
import traceback

from tilec_runtime.errors import SchedulingError


class Trace(Exception):  # noqa: N818 - not an error of its own: tracebacks show it as a cause
    """The origin of an error as text."""

    def __init__(self, stack: traceback.StackSummary) -> None:
        """Keep the stack's lines, without frames."""
        super().__init__()
        self._stack = stack

    def __str__(self) -> str:
        """Return the lines in the format of a traceback."""
        return "the error was kept; it came from\n" + "".join(self._stack.format()).rstrip()


def without_frames(error: BaseException) -> None:
    """Replace the frames of an error and of its causes by text, as the last cause.

    A frame keeps its callers alive too.
    """
    stack: traceback.StackSummary | None = None
    current: BaseException | None = error
    last, seen = error, set[int]()
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        last = current
        if current.__traceback__ is not None:
            stack = stack or traceback.StackSummary.extract(
                traceback.walk_tb(current.__traceback__), lookup_lines=False
            )
            current.__traceback__ = None
        current = (
            current.__context__ if current.__cause__ is None else current.__cause__
        )  # not `or`: an error's class may define `__bool__`
    if stack:
        last.__cause__ = Trace(stack)


def copied(error: BaseException) -> BaseException:
    """Return a copy of an error without its frames."""
    try:
        duplicate = copy.copy(error)
    except Exception:  # noqa: BLE001 - errors of other libraries may not support it
        duplicate = SchedulingError(f"work of the stream failed: {type(error).__name__}: {error}")
    return duplicate.with_traceback(None)
