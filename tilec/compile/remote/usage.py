"""Counts of a remote cache's use per build, stored in the private cache."""

from __future__ import annotations

import dataclasses
import operator

from tilec.compile.cache import Cache
from tilec.model.codec import decode

_RECORD = "remote cache"


@dataclasses.dataclass(slots=True)
class Usage:
    """Counts of one build, or of all builds.

    Attributes:
        hits, misses: numbers of looked-up keys.
        wrong: number of invalid entries.
        uploaded, failed: numbers of uploaded images, and of images that could not be uploaded.
        down, up: bytes of transferred images and index rows.
        saved: original compile time of the hits in seconds.
    """

    hits: int = 0
    misses: int = 0
    wrong: int = 0
    uploaded: int = 0
    failed: int = 0
    down: int = 0
    up: int = 0
    saved: float = 0.0

    @property
    def any(self) -> bool:
        """Whether the build used the remote cache."""
        return any(dataclasses.astuple(self))

    def add(self, other: Usage) -> Usage:
        """Return the sum of both."""
        return Usage(*map(operator.add, dataclasses.astuple(self), dataclasses.astuple(other)))


def record(cache: Cache, usage: Usage) -> None:
    """Store the counts of a build that used the remote cache, and add them to the sum."""
    if not usage.any:
        return
    before = recorded(cache)
    total = usage.add(before[1]) if before else usage
    rows = {"last": dataclasses.asdict(usage), "total": dataclasses.asdict(total)}
    cache.put_record(_RECORD, rows)


def recorded(cache: Cache) -> tuple[Usage, Usage] | None:
    """Return the counts of the last build with the remote cache and the sum, or None."""
    rows = cache.get_record(_RECORD)
    try:
        if isinstance(rows, dict):
            return decode(Usage, rows["last"]), decode(Usage, rows["total"])
    except (ValueError, TypeError, LookupError):
        pass  # written by another version
    return None
