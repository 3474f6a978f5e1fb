"""Errors that are kept for a later caller: without the frames that they went through,
which hold tensors.
"""

from __future__ import annotations

import copy
import traceback

from tilec_runtime.errors import SchedulingError


class Trace(Exception):  # noqa: N818 - it is none: it is shown where the cause of one is
    """Where an error came from, in words."""

    def __init__(self, stack: traceback.StackSummary) -> None:
        """Take the places."""
        super().__init__()
        self._stack = stack

    def __str__(self) -> str:
        """As tracebacks are shown."""
        return "the error was kept; it came from\n" + "".join(self._stack.format()).rstrip()


def without_frames(error: BaseException) -> None:
    """Turn the frames that an error and those behind it went through into words, as the last cause.
    Frames have their callers too.
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
        )  # some have a truth of their own
    if stack:
        last.__cause__ = Trace(stack)


def copied(error: BaseException) -> BaseException:
    """The same error without the frames that it went through."""
    try:
        duplicate = copy.copy(error)
    except Exception:  # noqa: BLE001 - classes of others need not support it
        duplicate = SchedulingError(f"work of the stream failed: {type(error).__name__}: {error}")
    return duplicate.with_traceback(None)
