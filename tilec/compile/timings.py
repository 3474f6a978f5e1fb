"""What jobs take: seconds of earlier builds, or a guess. The order of jobs alone depends on it."""

from __future__ import annotations

import math

from tilec.compile.cache import Cache
from tilec.model.job import Job
from tilec_runtime.model.arch import TargetKind

# Seconds for a small job, measured for each compiler on one core.
_BASE = {"tile": 0.1, "cuda": 0.05, "simt": 0.3, "triton": 0.2}
# Measured on the tile examples for six architectures: time grows with the square root of the
# elements in a block, a variant without assumptions takes twice that of one with them, and Hopper's
# matrix instructions double it once more.
_DOUBLES_AT = 2048
_ASSUMING = 0.5
_TARGETS = {("tile", (9, 0)): 2.0}
_MOST_TIMINGS = 4096  # per kernel


def expected_seconds(job: Job) -> float:
    """Guess a job's time from language, target, assumptions and its product of tile constants."""
    language = job.spec.language
    sizes = (value for _, value in job.variant.axes if isinstance(value, int) and value > 1)
    work = math.sqrt(min(math.prod(sizes), 1 << 24) / _DOUBLES_AT)
    work *= _TARGETS.get((language, job.target.cc), 1.0)
    if job.variant.assume:
        work *= _ASSUMING
    seconds = _BASE.get(language, 0.2) * (1.0 + work)
    # Portable code is not assembled.
    return seconds if job.target.kind is TargetKind.CUBIN else seconds * 0.5


class Timings:
    """Measured seconds of earlier builds, a record per kernel in the cache.

    The order of jobs alone depends on them.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._seconds: dict[str, dict[str, float]] = {}
        self._changed: set[str] = set()

    def expected(self, job: Job) -> float:
        """Return the seconds that a job will probably take."""
        return self._of(job).get(job.id) or expected_seconds(job)

    def measured(self, job: Job, seconds: float) -> None:
        """Record what a job took."""
        known = self._of(job)
        known.pop(job.id, None)
        known[job.id] = round(seconds, 3)
        self._changed.add(_record_name(job))

    def save(self) -> None:
        """Write the changed records to the cache."""
        for name in sorted(self._changed):
            self._cache.put_record(name, dict([*self._seconds[name].items()][-_MOST_TIMINGS:]))
        self._changed.clear()

    def _of(self, job: Job) -> dict[str, float]:
        name = _record_name(job)
        if name not in self._seconds:
            found = self._cache.get_record(name)
            rows = found.items() if isinstance(found, dict) else ()
            self._seconds[name] = {
                key: float(value) for key, value in rows if isinstance(value, int | float)
            }
        return self._seconds[name]


def _record_name(job: Job) -> str:
    return f"seconds {job.spec.language} {job.spec.source.path} {job.spec.name}"
