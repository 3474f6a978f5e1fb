"""Whether nobody else has an object, by the interpreter's own count of references: only then may it stand for what was made of it."""

from __future__ import annotations

import sys
from collections.abc import Callable

# Whether threads take turns, and change only at calls and jumps back: else neither that nor counts say anything.
TURNS = hasattr(sys, "getrefcount") and getattr(sys, "_is_gil_enabled", lambda: True)()
# Whether counts have all that hold an object. Later interpreters leave out what local variables hold.
EXACT = TURNS and sys.version_info < (3, 14)


def _never(_: object) -> int:
    return -1


# Of an object in a local variable: how many there are with that, and with what hands it over here; -1 where it cannot be told.
references: Callable[[object], int] = sys.getrefcount if EXACT else _never
# What that is of an object that only one local variable has. Everything else that holds it once adds one. It is not asked of a variable:
# debuggers that follow the import hold what is in those.
LOCAL = references(object()) + 1 if EXACT else 0


def followed() -> bool:
    """Whether a debugger or a profiler follows this thread: it may keep what local variables hold for a moment."""
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return True
    tools = getattr(sys, "monitoring", None)
    return tools is not None and any(tools.get_tool(number) is not None for number in range(6))
