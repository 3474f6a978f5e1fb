"""Copies of errors for later callers, without frames, which hold tensors."""

from __future__ import annotations

import copy

from tilec_runtime.errors import SchedulingError


def copied(error: BaseException) -> BaseException:
    """Return a copy of an error without its frames."""
    try:
        duplicate = copy.copy(error)
    except Exception:  # noqa: BLE001 - errors of other libraries may not support it
        duplicate = SchedulingError(f"work of the stream failed: {type(error).__name__}: {error}")
    duplicate.__cause__ = duplicate.__context__ = None  # tblib, which Dask loads, copies them
    return duplicate.with_traceback(None)
