"""Which op an error came out of. Where an op was made is kept as a `Site`, so that it costs little until a message needs it."""

from __future__ import annotations

import contextlib

from tilec.errors import TilecError
from tilec.runtime.tensors.lease import Site, location, site

__all__ = ["Site", "label", "location", "site"]


def label(error: BaseException, op: str) -> None:
    """Let an error say which op it came out of; the innermost one that does so stays."""
    if isinstance(error, TilecError):
        error.op = error.op or op
    elif isinstance(error, Exception):
        with contextlib.suppress(Exception):  # a class of somebody else, which may refuse a note
            add = getattr(error, "add_note", None)  # Python 3.11
            if add is not None and not getattr(error, "__notes__", None):
                add(f"in the DeviceOp {op}")
