"""Where an op was made: the innermost line outside of tilec, kept so that it costs little until a message needs it."""

from __future__ import annotations

import sys
from types import CodeType

from tilec.errors import Location, TilecError

Site = tuple[CodeType, int]


def site() -> Site:
    """The place that calls into tilec, or into a generated package, now."""
    frame = sys._getframe(1)  # noqa: SLF001 - inspect.stack() reads files, which costs a thousand times as much
    names = frame.f_globals
    while (names.get("__name__", "").startswith("tilec.") or "_tilec_package_" in names) and frame.f_back is not None:
        frame = frame.f_back
        names = frame.f_globals
    return frame.f_code, frame.f_lineno


def location(place: Site) -> Location:
    """A place as messages show it."""
    return Location(file=place[0].co_filename, line=place[1])


def label(error: BaseException, op: str) -> None:
    """Let an error say which op it came out of; the innermost one that does so stays."""
    if isinstance(error, TilecError):
        error.op = error.op or op
    elif isinstance(error, Exception) and not getattr(error, "__notes__", None):
        add = getattr(error, "add_note", None)  # Python 3.11
        if add is not None:
            add(f"in the DeviceOp {op}")
