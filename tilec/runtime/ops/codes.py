"""What is found out about code once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType
from typing import TypeVar

T = TypeVar("T")
# How many codes each function remembers.
_MOST = 64


def by_code(find: Callable[[CodeType], T]) -> Callable[[CodeType], T]:
    """A function of code that remembers, by identity: code that equals other code may stand elsewhere, on other lines."""
    known: dict[int, tuple[CodeType, T]] = {}

    @functools.wraps(find)
    def remembered(code: CodeType) -> T:
        entry = known.get(id(code))
        if entry is None:
            if len(known) >= _MOST:
                known.clear()
            entry = known[id(code)] = code, find(code)  # with the code: its id is nobody else's for as long
        return entry[1]

    return remembered
