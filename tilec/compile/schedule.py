"""How long a job will take: measured in earlier builds where possible, else guessed; only the order
of work depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tilec.compile.cache import Cache
from tilec.model.job import Job
from tilec_runtime.model.arch import TargetKind

# Seconds for a small job, from measurements of each compiler on one core.
_BASE = {"tile": 0.1, "cuda": 0.05, "simt": 0.3, "triton": 0.2}
# Measured on the tile examples for six architectures: time grows with the square root of the
# elements in a block, a variant without assumptions takes twice that of one with them, and Hopper's
# matrix instructions double it once more.
_DOUBLES_AT = 2048
_ASSUMING = 0.5
_TARGETS = {("tile", (9, 0)): 2.0}
_KEPT = 4096  # measurements per kernel


def expected_seconds(job: Job) -> float:
    """A guess from language, target, assumptions and the product of the variant's tile constants."""
    language = job.spec.language
    elements = math.prod(
        value for _, value in job.variant.axes if isinstance(value, int) and value > 1
    )
    work = math.sqrt(min(elements, 1 << 24) / _DOUBLES_AT) * _TARGETS.get(
        (language, job.target.cc), 1.0
    )
    if job.variant.assume:
        work *= _ASSUMING
    seconds = _BASE.get(language, 0.2) * (1.0 + work)
    return (
        seconds if job.target.kind is TargetKind.CUBIN else seconds * 0.5
    )  # portable code is not assembled


class Timings:
    """Measured seconds of earlier builds, a record per kernel in the cache."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._known: dict[str, dict[str, float]] = {}
        self._changed: set[str] = set()

    def expected(self, job: Job) -> float:
        """Seconds that the job will probably take."""
        return self._of(job).get(job.id) or expected_seconds(job)

    def measured(self, job: Job, seconds: float) -> None:
        """Remember what a job took."""
        known = self._of(job)
        known.pop(job.id, None)
        known[job.id] = round(seconds, 3)
        self._changed.add(_record(job))

    def save(self) -> None:
        """Put what was measured into the cache."""
        for name in sorted(self._changed):
            rows: Iterable[tuple[str, float]] = self._known[name].items()
            self._cache.put_record(name, dict(list(rows)[-_KEPT:]))
        self._changed.clear()

    def _of(self, job: Job) -> dict[str, float]:
        name = _record(job)
        if name not in self._known:
            found = self._cache.get_record(name)
            rows = found.items() if isinstance(found, dict) else ()
            self._known[name] = {
                key: float(value) for key, value in rows if isinstance(value, int | float)
            }
        return self._known[name]


def _record(job: Job) -> str:
    return f"seconds {job.spec.language} {job.spec.source.path} {job.spec.name}"
