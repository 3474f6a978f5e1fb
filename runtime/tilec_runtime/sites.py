"""Call sites: the line that made an op or acquired a lease.

They are recorded in debug mode only.
"""

from __future__ import annotations

import functools
import os
import sys

from tilec_runtime.errors import Location

_HINT = "TILEC_DEBUG=1 shows the lines"


def site() -> Location | None:
    """Return the innermost line outside of tilec and of generated packages, or None.

    Lines are recorded only in debug mode, by asyncio's convention: `python -X dev`, or
    `TILEC_DEBUG=1`. A line costs a few microseconds for each op and each lease.
    """
    if not recorded():
        return None
    import inspect  # importing it takes longer than a first launch

    frame = inspect.currentframe()
    while frame is not None:
        names = frame.f_globals
        if (
            not str(names.get("__name__")).startswith(("tilec_runtime.", "tilec."))
            and "_tilec_package_" not in names
        ):
            return Location(file=frame.f_code.co_filename, line=frame.f_lineno)
        frame = frame.f_back
    return None


def created(name: str, at: Location | None) -> str:
    """Return the name of an op with its call site, if recorded."""
    return name if at is None else f"{name}, created at {at}"


def hinted(fix: str) -> str:
    """Return an error's next step; without call sites, add how to record them."""
    return fix if recorded() else f"{fix}; {_HINT}"


@functools.cache  # each op and each lease calls it
def recorded() -> bool:
    """Return whether call sites are recorded."""
    return sys.flags.dev_mode or os.environ.get("TILEC_DEBUG", "") not in ("", "0")
