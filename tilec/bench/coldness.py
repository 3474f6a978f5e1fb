"""How the L2 cache is kept cold while a kernel is measured: on how many copies of its arguments,
and what is written over.
"""

from __future__ import annotations

import dataclasses
import enum

# Copies of the arguments go round until they are this many times the cache; where that takes more
# copies than `MOST_COPIES`, as many are made as a sample has launches, and the cache is written
# over before each sample: then no launch finds what another one has left.
TIMES_L2 = 2
MOST_COPIES = 64
# Copies take no more than this part of the memory that is free.
_SHARE = 4


class Cache(enum.Enum):
    """What a launch finds in the L2 cache."""

    AS_IT_IS = "as it is"  # the arguments are larger than the cache, or nothing is known of one
    ROTATED = "rotated"  # each launch has another copy of the arguments
    FLUSHED = "flushed"  # and the cache is written over before each sample
    HOT = "hot"  # what the launch before has left there


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CachePlan:
    """What is done about the cache: sets of arguments that take turns, and bytes that are written
    over before each sample (0 for none).
    """

    cache: Cache
    copies: int = 1
    flush: int = 0


def plan_cache(size: int, *, l2: int, free: int, launches: int, cold: bool = True) -> CachePlan:
    """What keeps the cache cold.

    Args:
        size: bytes of one set of arguments.
        l2: bytes of the cache; 0 where it is not known.
        free: bytes of memory that are free.
        launches: most of one sample.
        cold: whether it is to be cold at all.
    """
    if not cold and l2:
        return CachePlan(cache=Cache.HOT)
    target = TIMES_L2 * l2
    if size >= target or not size:
        return CachePlan(cache=Cache.AS_IT_IS)
    copies = -(-target // size) + 1
    if copies <= MOST_COPIES and copies * size <= free // _SHARE:
        return CachePlan(cache=Cache.ROTATED, copies=copies)
    copies = max(1, min(launches, copies, (free // _SHARE - target) // size))
    return CachePlan(cache=Cache.FLUSHED, copies=copies, flush=target)
