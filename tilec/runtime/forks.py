"""A forked child has none of its parent's threads: locks that these held when it was made are new ones there, or they would stay held."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

_MAKERS: dict[type, Callable[[], Any]] = {type(make()): make for make in (threading.Lock, threading.RLock, threading.Condition)}
# What locks are called, of objects and of modules. A condition comes behind the lock that it is over, if its object has one.
_NAMES = ("_lock", "lock", "_changed", "_pool_lock", "_LOCK", "_STORES_LOCK")


def renew_locks() -> None:
    """Give every module and object of tilec new locks. What a thread was changing meanwhile stays as far as it had come."""
    for thing in _things():
        for name in _NAMES:
            kind = type(_attribute(thing, name))
            make = _MAKERS.get(kind)
            if make is not None:
                made = threading.Condition(_attribute(thing, "_lock")) if kind is threading.Condition else make()
                object.__setattr__(thing, name, made)  # values that are frozen take it too


def _attribute(thing: Any, name: str) -> Any:
    """Without asking the object for names that it makes up."""
    try:
        return object.__getattribute__(thing, name)
    except AttributeError:
        return None


def _things() -> Iterator[Any]:
    for name, module in list(sys.modules.items()):
        if name.startswith("tilec."):
            yield module
    frozen = gc.get_freeze_count() > 0  # servers freeze what is there before they fork, and then it is not listed
    if frozen:
        gc.unfreeze()
    ours: dict[type, bool] = {}
    for thing in gc.get_objects():
        kind = type(thing)
        if ours.get(kind) or (kind not in ours and ours.setdefault(kind, _is_ours(kind))):
            yield thing
    if frozen:
        gc.freeze()


def _is_ours(kind: type) -> bool:
    """Whether a class of tilec's, or one that is derived from it."""
    return any(str(getattr(base, "__module__", "")).startswith("tilec.") for base in kind.__mro__)
