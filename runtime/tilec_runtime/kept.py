"""Errors that are kept for somebody who asks later: without what the frames hold that they went through."""

from __future__ import annotations

import contextlib
import copy
import traceback
from collections.abc import Iterator

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
    """Turn the frames that an error went through into words, as its last cause. Frames have their callers, and all that these hold."""
    stack: traceback.StackSummary | None = None
    last = error
    for found in _chain(error):
        last = found
        if found.__traceback__ is not None:
            stack = stack or traceback.StackSummary.extract(traceback.walk_tb(found.__traceback__), lookup_lines=False)
            found.__traceback__ = None
    if stack:
        last.__cause__ = Trace(stack)


def copied(error: BaseException) -> BaseException:
    """The same error without the frames that it went through."""
    try:
        made = copy.copy(error)
    except Exception:  # noqa: BLE001 - classes of others need not support it
        made = SchedulingError(f"work of the stream failed: {type(error).__name__}: {error}")
    return made.with_traceback(None)


def let_go(error: BaseException) -> None:
    """Empty the frames of tilec that an error went through: ops and tensors end with the failure, and not when nobody looks at it any more.

    Frames of others are for debuggers.
    """
    for found in _chain(error):
        trace = found.__traceback__
        while trace is not None:
            if str(trace.tb_frame.f_globals.get("__name__")).startswith(("tilec_runtime.", "tilec.")):
                with contextlib.suppress(RuntimeError):  # it is running
                    trace.tb_frame.clear()
            trace = trace.tb_next


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, and those behind it."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__context__ if found.__cause__ is None else found.__cause__  # some have a truth of their own
