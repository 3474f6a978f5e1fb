"""Which op an error came out of."""

from __future__ import annotations

import contextlib

from tilec_runtime.errors import TilecError


def label(error: BaseException, op: str, step: str = "") -> None:
    """Let an error say which op it came out of; the innermost one that does so stays.

    Args:
        error: on its way through the op.
        op: name of the op, with its call site where that is recorded.
        step: which step of its chain it was, where no call site says so; the innermost stays.
    """
    if isinstance(error, TilecError):
        error.op = error.op or op
        if ", step " not in error.op:
            error.op += step
    elif isinstance(error, Exception):
        with contextlib.suppress(Exception):  # a class of somebody else, which may refuse a note
            add = getattr(error, "add_note", None)  # Python 3.11
            if add is not None and not getattr(error, "__notes__", None):
                add(f"in the DeviceOp {op}{step}")
