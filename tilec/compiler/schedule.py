"""How long a job will take: measured in earlier builds where possible, else guessed; only the order of work depends on it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tilec.compiler.cache import Cache
from tilec.model.arch import TargetKind
from tilec.model.job import Job

# Seconds for a small job, from measurements of each compiler on one core.
_BASE = {"tile": 0.2, "cuda": 0.05, "simt": 0.3, "triton": 0.2}
_KEPT = 4096  # measurements per kernel


def expected_seconds(job: Job) -> float:
    """A guess from language, target and the product of the variant's tile constants."""
    base = _BASE.get(job.spec.language, 0.2)
    if job.target.kind is not TargetKind.CUBIN:
        base *= 0.5  # portable code is not assembled
    # Compile time of tiles grows with the elements that a block holds; 16 Ki of them double it.
    elements = math.prod(value for _, value in job.variant.axes if isinstance(value, int) and value > 1)
    return base * (1.0 + min(elements, 1 << 24) / (1 << 14))


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
            self._known[name] = {key: float(value) for key, value in rows if isinstance(value, int | float)}
        return self._known[name]


def _record(job: Job) -> str:
    return f"seconds {job.spec.language} {job.spec.source.path} {job.spec.name}"
