"""One call for each object that is gone: what gives its memory back."""

from __future__ import annotations

import atexit
import functools
import weakref
from collections.abc import Callable
from typing import Any

from tilec.runtime.tensors.drops import DROPS

# `weakref.finalize` would do, but for the end of a process: it walks through the table of all objects then, which fails, and with it what
# others want to have done at the end, where a thread that goes on makes a tensor or drops one meanwhile.
_LIVE: dict[int, GivingBack] = {}
_OVER: list[bool] = []


class GivingBack(weakref.ref[Any]):
    """Makes a call once an object is gone, or when `now` is called, and never twice.

    Once the process ends nothing is called any more: the driver takes everything back by itself, and may be gone by then.
    """

    __slots__ = ("_call",)
    _call: Callable[[], None]

    def __new__(cls, of: object, call: Callable[[], None]) -> GivingBack:  # noqa: PYI034 - nothing derives from it
        """Follow an object. The call must not lead back to it."""
        made = super().__new__(cls, of, _gone)
        made._call = call
        if not _LIVE:
            _know_of_the_end()
        _LIVE[id(made)] = made
        return made

    @property
    def due(self) -> bool:
        """Whether the call was not made yet."""
        return id(self) in _LIVE

    def now(self) -> None:
        """Make the call, unless it was made before."""
        _gone(self)

    def never(self) -> None:
        """Do without the call."""
        _LIVE.pop(id(self), None)


# With what it needs as defaults: it is called until the interpreter has taken its modules apart.
def _gone(made: Any, live: dict[int, GivingBack] = _LIVE, over: list[bool] = _OVER, drops: Any = DROPS) -> None:
    if live.pop(id(made), None) is not None and not over:
        drops.call(made._call)  # noqa: SLF001 - its own class


@functools.cache
def _know_of_the_end() -> None:
    atexit.register(_OVER.append, True)  # the later this is registered, the sooner it is heard: before devices are waited for
